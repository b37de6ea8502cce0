"""Right answers with one slip: all that the operators give, in an order that depends on a seed."""

import ast
import hashlib
import linecache
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.operators import OPERATORS
from fresh.sources import Source, sources_of


@dataclass(frozen=True)
class Mutant:
    """A right answer with one slip.

    Args:
        source: the right answer.
        operator: the name of the slip.
        place: of the changed node in `ast.walk` of the right answer.
        before, after: what stood there, and what stands there now.
        old, new: the node that stood there, and the one that stands there now.
    """

    source: Source
    operator: str
    place: int
    before: str
    after: str
    old: ast.AST
    new: ast.AST

    @cached_property
    def code(self) -> str:
        """Its source, as a student would have written it."""
        tree = _replaced(self.source.node, self.old, self.new)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    def answer(self) -> Any:
        """The function or class, defined as in a cell of a notebook: its lines can be quoted."""
        code, names = self.code, list(self.source.cells)
        file = f"/tmp/ipykernel_0/{hashlib.sha256(code.encode()).hexdigest()[:12]}.py"
        linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
        tree = ast.parse(code)
        if names:  # as inside the function that encloses it
            result = ast.Return(ast.Name(self.source.name, ast.Load()))
            around = ast.parse(f"def enclosing({', '.join(names)}): pass")
            around.body[0].body = [*tree.body, result]
            tree = ast.fix_missing_locations(around)
        space = self.source.space | {"__name__": "__main__"}
        exec(compile(tree, file, "exec"), space)
        return space["enclosing"](**self.source.cells) if names else space[self.source.name]


def drawn(exercise: Any, seed: int = 0) -> Iterator[Mutant]:
    """All mutants, each kind of slip in turn.

    The order follows from what each changes, not from how many there are: one style more or less
    leaves the others in their order.
    """
    by_operator = defaultdict(list)
    for source in sources_of(exercise):
        for mutant in mutants(source):
            told = f"{seed} {mutant.before} {mutant.after} {source.style} {mutant.place}"
            rank = hashlib.sha256(told.encode()).digest()
            by_operator[mutant.operator].append((rank, mutant))
    ordered = [
        (turn, rank, mutant)
        for several in by_operator.values()
        for turn, (rank, mutant) in enumerate(sorted(several, key=lambda pair: pair[0]))
    ]
    seen = set()
    for *_, mutant in sorted(ordered, key=lambda row: row[:2]):
        if mutant.code not in seen:
            seen.add(mutant.code)
            yield mutant


def mutants(source: Source) -> Iterator[Mutant]:
    """Every slip at every place of a right answer."""
    names = _parameters(source.node)
    for place, node in enumerate(ast.walk(source.node)):
        changes = [(x.name, new) for x in OPERATORS for new in x.changes(node, names.get(node, []))]
        before = _written(node) if changes else ""
        for operator, new in changes:
            if (after := _written(new)) != before:
                yield Mutant(source, operator, place, before, after, node, new)


def _written(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


def _parameters(tree: ast.AST) -> dict[ast.AST, list[str]]:
    """The parameters of the function that is nearest around each node."""
    found = {}
    for node in ast.walk(tree):  # an inner function comes later, and has the last word
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            a = node.args
            names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs) if x.arg != "self"]
            found |= dict.fromkeys(ast.walk(node), names)
    return found


def _replaced(node: Any, old: ast.AST, new: ast.AST) -> Any:
    """The same tree with another node in one place."""
    if node is old:
        return new
    if isinstance(node, list):
        return [_replaced(x, old, new) for x in node]
    if not isinstance(node, ast.AST):
        return node
    return type(node)(**{name: _replaced(x, old, new) for name, x in ast.iter_fields(node)})
