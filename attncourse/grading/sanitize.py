"""Untrusted text made fit to be shown: no hidden characters, no endless lines, no formulas."""

import re
import unicodedata

# Zero-width joiners belong to Persian names and to emoji; they reorder and erase nothing.
JOINERS = "\u200c\u200d"
# Controls, formats (bidi overrides among them), lone surrogates, line and paragraph separators.
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}

# A spreadsheet also looks for formulas behind a separator of another country's CSV.
FORMULA = re.compile(r"(^|[;|])([\s\"]*)(?=[=+\-@＝＋－＠])")

LONGEST = 2000


def escape_hidden(text: str, keep: str = "") -> str:
    """The text with every control, bidi and other hidden character written out, as in ``[U+202E]``.

    The result can be encoded in UTF-8 and stand in XML. Characters in ``keep`` stay.
    """
    return "".join(f"[U+{ord(c):04X}]" if c not in keep and _is_hidden(c) else c for c in text)


def truncate(text: str, most: int = LONGEST, keep: str = "") -> str:
    """`escape_hidden`, cut after ``most`` characters; a cut text ends with its full length."""
    cut = f" ... ({len(text):,} characters)" if len(text) > most else ""
    return escape_hidden(text[:most], keep) + cut


def spreadsheet_cell(text: str) -> str:
    """`truncate`, with an apostrophe before every start of a formula."""
    guard = "'" if text[:1] in ("\t", "\r") else ""
    return guard + FORMULA.sub(r"\1\2'", truncate(text))


def _is_hidden(c: str) -> bool:
    nobody = ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF
    return nobody or (unicodedata.category(c) in HIDDEN and c not in JOINERS)
