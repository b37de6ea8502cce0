"""Show the code of the package in a notebook: the text that is shown is the code that runs."""

import ast
import inspect
import textwrap


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


def _without_docstrings(source: str) -> str:
    source = textwrap.dedent(source)
    lines = source.rstrip().split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            doc = node.body[0]
            for number in range(doc.lineno, doc.end_lineno + 1):
                lines[number - 1] = None
    kept = [line for line in lines if line is not None]
    return "\n".join(kept)
