"""Right answers of an exercise, and where each stands in the source."""

import ast
import inspect
import sys
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import styles

ROOT = Path(__file__).parents[3]
REGISTERS = {"style"}  # decorators that only list an answer


def right_answers(exercise: Any) -> dict[str, Any]:
    """Right answers by the names of their styles: the exercise's own, and those of `styles`."""
    right = getattr(exercise, "right", None)
    own = {} if right is None else {"right": right}
    return own | styles.of(exercise.name)


@dataclass(frozen=True)
class Source:
    """A right answer that is a function or a class.

    Args:
        style: its name.
        answer: itself.
        node: its definition, an assignment to `answer` where it is a lambda.
        name: what the node defines.
        space: the names around it.
        cells: the values of the enclosing function that it uses.
    """

    style: str
    answer: Any
    node: ast.stmt
    name: str
    space: dict[str, Any]
    cells: dict[str, Any]


def sources_of(exercise: Any) -> list[Source]:
    """The right answers of an exercise that have a source of their own."""
    found = (source(style, answer) for style, answer in right_answers(exercise).items())
    return [one for one in found if one]


def source(style: str, answer: Any) -> Source | None:
    """Where an answer is defined; None for values, objects and what another package defines."""
    if not isinstance(answer, FunctionType | type):
        return None
    file = inspect.getsourcefile(answer)
    if not file or ROOT not in Path(file).resolve().parents or ".venv" in file:
        return None
    is_class = isinstance(answer, type)
    node = (_class if is_class else _function)(_tree(file), answer)
    if node is None:
        return None
    node = deepcopy(node)
    space = dict(vars(sys.modules[answer.__module__])) if is_class else dict(answer.__globals__)
    cells = {} if is_class else inspect.getclosurevars(answer).nonlocals
    if isinstance(node, ast.Lambda):
        node = ast.Assign([ast.Name("answer", ast.Store())], node, lineno=node.lineno)
        return Source(style, answer, node, "answer", space, dict(cells))
    node.decorator_list = [x for x in node.decorator_list if not _registers(x)]
    return Source(style, answer, _bare(node), node.name, space, dict(cells))


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _function(tree: ast.Module, answer: FunctionType) -> ast.AST | None:
    """The definition that starts in the line of the code; of several lambdas that with the same extent."""
    code = answer.__code__
    extents = set(code.co_positions())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min(x.lineno for x in (node, *node.decorator_list))
            if first == code.co_firstlineno and node.name == code.co_name:
                return node
        elif isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            x = node.body
            if (x.lineno, x.end_lineno, x.col_offset, x.end_col_offset) in extents:
                return node
    return None


def _class(tree: ast.Module, answer: type) -> ast.AST | None:
    """The only class of this name."""
    named = [x for x in ast.walk(tree) if isinstance(x, ast.ClassDef)]
    named = [x for x in named if x.name == answer.__name__]
    return named[0] if len(named) == 1 else None


def _registers(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(called, "attr", getattr(called, "id", "")) in REGISTERS


def _bare(node: ast.stmt) -> ast.stmt:
    """The definition without annotations: a slip in one changes nothing."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            inner.annotation = None
        elif isinstance(inner, ast.FunctionDef):
            inner.returns = None
    return node
