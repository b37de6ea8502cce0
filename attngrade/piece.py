"""One cell during reading, and the names that it defines."""

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
    """A cell: its number in the notebook, from 1, its declared kind, and nbgrader's id."""

    number: int
    kind: str
    source: str
    grade_id: str = ""

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree; None where the cell is no Python."""
        return parse(self.source)

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """The names that the cell defines at the top level, each with the last statement that binds it."""
        statements = self.tree.body if self.tree else ()
        return {name: statement for statement in statements for name in _bound_by(statement)}

    @property
    def checks(self) -> set[str]:
        """The exercises for which the cell calls `check`."""
        return set(_CHECK.findall(self.source)) & set(names())

    @property
    def answers(self) -> dict[str, ast.stmt]:
        """The answers in the cell; an untouched stub is none."""
        return {
            k: x for k, x in self.bound.items() if k in chapters_of_answers() and not is_stub(x)
        }


@cache
def chapters_of_answers() -> dict[str, set[str]]:
    """For each name of an answer, the chapters whose exercises ask for it."""
    found: dict[str, set[str]] = {}
    for name in names():
        found.setdefault(load(name).answer, set()).add(chapter_of(name))
    return found


def parse(source: str) -> ast.Module | None:
    """The syntax tree; None where the source is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as "\d" in a string
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def is_stub(statement: ast.stmt) -> bool:
    """True for ``name = None``, and for a function or class whose bodies all still raise NotImplementedError."""
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
