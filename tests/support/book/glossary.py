"""The terms of the glossary, and whether a text links each of them before it relies on it."""

import re

from support.book.notebooks import ROOT

PAGE = ROOT / "chapters" / "glossary.md"
TO_TERM = re.compile(r"(?:^|/)glossary\.md#term-(.+)$")
LINK = r"\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]*)\)"
EMPHASIS = r"(?P<mark>\*{1,2})(?=\S)(?P<strong>[^*]{1,60}?)(?<=\S)(?P=mark)"
# What is no prose: code, formulas, headings, tags.
SILENT = re.compile(
    r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|^#+ [^\n]*|<[^>]+>", re.DOTALL | re.MULTILINE
)


def terms(text: str | None = None) -> list[str]:
    """The terms of a glossary, in its order; of the course's own where no text is given."""
    text = PAGE.read_text(encoding="utf-8") if text is None else text
    block = text.partition("```{glossary}\n")[2].partition("\n```")[0]
    return re.findall(r"^(\S.*)$", block, re.MULTILINE)


def slug(term: str) -> str:
    """``kv-cache`` for KV cache: the anchor of a term is ``term-`` and this."""
    return re.sub(r"[^a-z0-9._]+", "-", term.lower()).strip("-")


def unknown_links(text: str, known: list[str]) -> list[str]:
    """The links that lead to terms which the glossary does not have."""
    slugs = {slug(term) for term in known}
    found = [TO_TERM.search(link["target"]) for link in re.finditer(LINK, text)]
    return [link[1] for link in found if link and link[1] not in slugs]


def unexplained(text: str, known: list[str]) -> list[str]:
    """The terms that a text uses before it links them, or sets them in emphasis to explain them.

    A term inside a longer one (attention in self-attention) is not used, and neither is one in code, in
    formulas or in headings.
    """
    by_slug = {slug(term): term for term in known}
    longest = sorted(known, key=len, reverse=True)
    one = re.compile("|".join(f"(?P<t{k}>{_forms(x)})" for k, x in enumerate(longest)), re.I)
    explained, missing = set(), []

    def used(words: str) -> list[str]:
        return [longest[int(found.lastgroup[1:])] for found in one.finditer(words)]

    text = SILENT.sub(" ", text)
    for found in re.finditer(f"{LINK}|{EMPHASIS}|(?P<other>{one.pattern})", text, re.I):
        target = TO_TERM.search(found["target"] or "")
        if target:
            explained.add(by_slug.get(target[1]))
        elif found["strong"]:
            explained |= set(used(found["strong"]))
        else:
            missing += [x for x in used(found["words"] or found[0]) if x not in explained]
    return list(dict.fromkeys(missing))


def _forms(term: str) -> str:
    """A pattern of a term in the singular and in the plural."""
    words = re.escape(term).replace(r"\ ", r"\s+").removesuffix("s")
    ending = "(?:y|ys|ies)" if words.endswith("y") else "(?:s|es)?"
    return rf"(?<![\w-]){words.removesuffix('y')}{ending}(?![\w-])"
