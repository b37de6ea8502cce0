"""One cell while it is read: as it stands in the file, as plain Python, and what it defines."""

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property

from IPython.core.inputtransformer2 import TransformerManager, leading_indent

from attncourse.grading.exercises import chapter_of, load, names

# IPython looks at the whole cell again after each magic: so many characters a notebook, all looks
# together, and no line that is longer than anybody types, as its patterns take quadratic time.
MOST_LOOKED_AT = 2_000_000
LONGEST_LINE = 1000

_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Magics of a whole cell that run the rest of it as Python, here.
_RUN_THE_BODY = re.compile(r"\s*%%(?:capture|prun|time|timeit)\b.*\n")
_MAGIC = re.compile(r"^[ \t]*[!%?,;/]|=[ \t]*[!%]|\?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """A cell while it is repaired.

    Args:
        number: its place in the notebook, from 1.
        kind: ``code``, or what else it claims to be.
        source: as it stands in the file.
        grade_id: nbgrader's name for the cell, if it has one.
        python: the source with magics as calls of ``get_ipython()``, as in a notebook.
    """

    number: int
    kind: str
    source: str
    grade_id: str = ""
    python: str = ""

    @cached_property
    def tree(self) -> ast.Module | None:
        """Its syntax tree, or None where it is no Python."""
        return parse(self.python)

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """What it defines at the top level: the last statement that binds each name."""
        found = {}
        for statement in self.tree.body if self.tree else ():
            found |= dict.fromkeys(_bound_by(statement), statement)
        return found

    @cached_property
    def checks(self) -> set[str]:
        """The exercises that it calls `check` on."""
        if "check" not in self.python or not self.tree:
            return set()
        calls = (x for x in ast.walk(self.tree) if isinstance(x, ast.Call) and x.args)
        named = (c.args[0] for c in calls if getattr(c.func, "id", "") == "check")
        asked = {x.value for x in named if isinstance(x, ast.Constant) and isinstance(x.value, str)}
        return asked & set(names())

    def answers(self) -> set[str]:
        """The answers that it gives; an untouched stub is none."""
        return {x for x in self.bound.keys() & answers().keys() if not is_stub(self.bound[x])}


@cache
def answers() -> dict[str, set[str]]:
    """The chapters in which each name is the answer to an exercise."""
    found: dict[str, set[str]] = {}
    for name in names():
        found.setdefault(load(name).answer, set()).add(chapter_of(name))
    return found


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None where this is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is the student's own affair
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def with_python(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces with ``python`` filled in; one that is hard to look at keeps its magics."""
    ready, room = [], MOST_LOOKED_AT
    for piece in pieces:
        source = piece.source
        while body := _RUN_THE_BODY.match(source):
            source = source[body.end() :]
        looks = len(_MAGIC.findall(source)) * len(source)
        typed = max(map(len, source.splitlines()), default=0) <= LONGEST_LINE
        if 0 < looks <= room and typed and not parse(source):
            room -= looks
            source = _transformed(source)
        ready.append(replace(piece, python=source))
    return ready


def is_stub(statement: ast.stmt) -> bool:
    """``name = None``, or a function or class whose every body still ends by raising the stub."""
    if isinstance(statement, ast.ClassDef):
        methods = [x for x in statement.body if isinstance(x, ast.FunctionDef)]
        return bool(methods) and all(map(is_stub, methods))
    if isinstance(statement, ast.FunctionDef):
        last, inside = statement.body[-1], ast.walk(statement)
        raises = getattr(getattr(last, "exc", None), "id", "") == "NotImplementedError"
        return raises and not any(isinstance(x, ast.Return | ast.Yield) for x in inside)
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Constant) and value.value in (None, ...)


@cache
def _transformer() -> TransformerManager:
    manager = TransformerManager()
    # A cell that is indented may be half of one: `attngrade.repair` looks at that.
    manager.cleanup_transforms.remove(leading_indent)
    return manager


def _transformed(source: str) -> str:
    try:
        return _transformer().transform_cell(source).removesuffix("\n")
    except Exception:  # the same slip is told when the cell is run
        return source


def _bound_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, _DEFINES):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(x.asname or x.name).split(".")[0] for x in statement.names]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    nodes = (x for t in targets if t for x in ast.walk(t) if isinstance(x, ast.Name))
    return [x.id for x in nodes if isinstance(x.ctx, ast.Store)]
