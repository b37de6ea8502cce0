"""Show the code of the package in a notebook: the text that is shown is the code that runs."""

import ast
import inspect
import textwrap
from importlib.util import find_spec
from pathlib import Path


class Listing:
    """Source code, without the docstrings that the API page already shows."""

    def __init__(self, source: str):
        self.source = source

    def __repr__(self) -> str:
        return self.source

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.source}\n```"


def listing(*objects) -> Listing:
    """The source of functions or classes, one below the other, docstrings left out."""
    return Listing("\n\n\n".join(_without_docstrings(inspect.getsource(o)) for o in objects))


def passage(where: str, first: str, last: str) -> str:
    """Some lines of a function, read from its file: its module need not be importable here.

    Args:
        where: module and function, "attncourse.steps.attention".
        first, last: how the first and the last line begin; from the first line that begins so, to the next
            one that does.

    Raises:
        ValueError: there is no such function or line; the code has changed, and the text beside it must too.
    """
    module, _, name = where.rpartition(".")
    spec = find_spec(module)
    if not spec or not spec.origin:
        raise ValueError(f"expected a module {module} with source; there is none")
    source = Path(spec.origin).read_text(encoding="utf-8")
    nodes = [x for x in ast.parse(source).body if getattr(x, "name", "") == name]
    if not nodes:
        raise ValueError(f"expected a function {name} in {module}; it has none")
    lines = source.splitlines()[nodes[0].lineno - 1 : nodes[0].end_lineno]
    start = _find(lines, first, 0, where)
    return textwrap.dedent("\n".join(lines[start : _find(lines, last, start, where) + 1]))


def _find(lines: list[str], beginning: str, start: int, where: str) -> int:
    for number in range(start, len(lines)):
        if lines[number].strip().startswith(beginning):
            return number
    raise ValueError(f"expected a line of {where} that begins with {beginning!r}; it has none")


class Passages:
    """Pieces of code with a name each, one below the other: the same step, written twice.

    Args:
        passages: name and code.
    """

    def __init__(self, passages: dict[str, str]):
        self.passages = passages

    def __repr__(self) -> str:
        return "\n\n".join(f"# {name}\n{code}" for name, code in self.passages.items())

    def _repr_markdown_(self) -> str:
        parts = (f"{name}\n\n```python\n{code}\n```" for name, code in self.passages.items())
        return "\n\n".join(parts)


def _without_docstrings(source: str) -> str:
    source = textwrap.dedent(source).rstrip()
    scopes = (
        x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.FunctionDef | ast.ClassDef)
    )
    docs = [scope.body[0] for scope in scopes if ast.get_docstring(scope)]
    hidden = {k for doc in docs for k in range(doc.lineno, (doc.end_lineno or doc.lineno) + 1)}
    lines = enumerate(source.split("\n"), start=1)
    return "\n".join(line for number, line in lines if number not in hidden)
