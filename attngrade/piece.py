"""One cell while it is read, and what it defines."""

import ast
import re
import warnings
from dataclasses import dataclass
from functools import cache, cached_property

from attncourse.grading.exercises import chapter_of, load, names

_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_CHECK = re.compile(r"""^[ \t]*(?:\w+[ \t]*=[ \t]*)?check\(\s*["'](\w+)["']""", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """A cell: its place in the notebook, from 1, what kind it claims to be, nbgrader's id for it."""

    number: int
    kind: str
    source: str
    grade_id: str = ""

    @cached_property
    def tree(self) -> ast.Module | None:
        """Its syntax tree, or None where it is no Python."""
        return parse(self.source)

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """What it defines at the top level: the last statement that binds each name."""
        statements = self.tree.body if self.tree else ()
        return {name: statement for statement in statements for name in _bound_by(statement)}

    @property
    def checks(self) -> set[str]:
        """The exercises that it calls `check` on."""
        return set(_CHECK.findall(self.source)) & set(names())

    @property
    def answers(self) -> dict[str, ast.stmt]:
        """The answers that it gives; an untouched stub is none."""
        return {
            k: x for k, x in self.bound.items() if k in chapters_of_answers() and not is_stub(x)
        }


@cache
def chapters_of_answers() -> dict[str, set[str]]:
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


def is_stub(statement: ast.stmt) -> bool:
    """``name = None``, or a function or class whose every body still ends by raising the stub."""
    if isinstance(statement, ast.ClassDef):
        methods = [x for x in statement.body if isinstance(x, ast.FunctionDef)]
        return bool(methods) and all(map(is_stub, methods))
    if isinstance(statement, ast.FunctionDef):
        raises = getattr(getattr(statement.body[-1], "exc", None), "id", "")
        returns = any(isinstance(x, ast.Return | ast.Yield) for x in ast.walk(statement))
        return raises == "NotImplementedError" and not returns
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Constant) and value.value in (None, ...)


def _bound_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, _DEFINES):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(x.asname or x.name).split(".")[0] for x in statement.names]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    nodes = (x for t in targets if t for x in ast.walk(t) if isinstance(x, ast.Name))
    return [x.id for x in nodes if isinstance(x.ctx, ast.Store)]
