"""What a notebook allows beside Python, taken out: magics, shell lines, questions.

The parser says where Python ends, so text in a string that merely looks like a magic stays.
"""

import ast
import re
import warnings
from functools import lru_cache

# Each magic costs one more look at the cell: so many for a cell, fewer for a long one.
MOST_MAGICS = 100
MOST_PARSED = 300_000
# Cells up to this length, in characters, are remembered.
SHORT = 2000

# Cell magics that run the rest of the cell as Python here; the others are another language or
# another process.
KEEP_THE_BODY = {"capture", "prun", "time"}

_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*\n?")
_TIMED = re.compile(r"(\s*)%time\s+(\S.*)")
_ASSIGNED = re.compile(r"(\s*[\w.,()\[\] \t]+=)\s*[!%]\S.*")
_LINE = re.compile(r"(\s*)(?:[%!?].*|[\w.*]+\?\??\s*(?:#.*)?)$")


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None where this is no Python."""
    return (_shared(source) if len(source) <= SHORT else _tree_or_error(source))[0]


def plain(source: str) -> str:
    """The cell as plain Python; empty where it held none, such as a cell of shell commands.

    Where it does not become Python, because of a slip or because it is half a cell, its magics are
    gone all the same. The lines keep their numbers.
    """
    if parse(source):
        return source
    magic = _CELL_MAGIC.match(source)
    if magic:
        if magic[1] not in KEEP_THE_BODY:
            return ""
        source = "\n" * magic[0].count("\n") + source[magic.end() :]
    lines = source.split("\n")
    for _ in range(min(MOST_MAGICS, MOST_PARSED // (len(source) + 1))):
        tree, error = _tree_or_error("\n".join(lines))
        if tree or error is None or not _without_magic(lines, error):
            break
    return _even_indentation("\n".join(lines))


def error_line(source: str) -> int:
    """The line in which the parser gave up, from 1; 1 where it cannot say."""
    return getattr(_tree_or_error(source)[1], "lineno", None) or 1


@lru_cache(maxsize=128)
def _shared(source: str) -> tuple[ast.Module | None, SyntaxError | None]:
    """Most cells are the same in every notebook of a class."""
    return _tree_or_error(source)


def _tree_or_error(source: str) -> tuple[ast.Module | None, SyntaxError | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is the student's own affair
        try:
            return ast.parse(source), None
        except SyntaxError as error:
            return None, error
        except (ValueError, MemoryError, RecursionError):
            return None, None


def _without_magic(lines: list[str], error: SyntaxError) -> bool:
    """Replace the magic that the parser stumbled over, in place; False if there was none."""
    index = (error.lineno or 0) - 1
    if not 0 <= index < len(lines):
        return False
    line = lines[index]
    if timed := _TIMED.match(line):
        lines[index] = timed[1] + timed[2]
    elif assigned := _ASSIGNED.match(line):
        lines[index] = f"{assigned[1]} None"
    elif found := _LINE.match(line):
        lines[index] = f"{found[1]}pass"
    else:
        return False
    while line.endswith("\\") and index + 1 < len(lines):  # a shell command of several lines
        index += 1
        line, lines[index] = lines[index], ""
    return True


def _even_indentation(source: str) -> str:
    """Tabs mixed with spaces, spelt out as the spaces that make it Python."""
    if "\t" not in source or not isinstance(_tree_or_error(source)[1], TabError):
        return source
    for width in (8, 4):
        spelt = re.sub(
            r"^[ \t]+", lambda found, w=width: found[0].expandtabs(w), source, flags=re.M
        )
        if parse(spelt):
            return spelt
    return source
