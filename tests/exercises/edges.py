"""Does a list of calls meet each branch of a right answer both ways, and each comparison on its edge and beside it?

The file of an exercise is compiled once more, so that its comparisons, conditions, quotients, limits and roundings tell
what they meet; then its right answer and its definition are run on the calls of the judge.
"""

import ast
import math
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

BELOW, EQUAL, ABOVE, BESIDE = "below", "on the edge", "above", "beside the edge"
WHOLE, BROKEN = "whole", "with a remainder"
ORDERS, EQUALS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE), (ast.Eq, ast.NotEq)
LIMITS, EXTREMES = {"clamp", "clip"}, {"min", "max", "minimum", "maximum"}
ROUNDINGS = {"floor", "ceil", "round", "trunc"}


class Met:
    """What each place of a source met: wanted outcomes, and those that were seen."""

    def __init__(self):
        self.wanted: dict[str, set[str]] = defaultdict(set)
        self.seen: dict[str, set[str]] = defaultdict(set)

    def missing(self) -> list[str]:
        """``place: never outcome`` for each, of all places that were reached."""
        return [
            f"{place}: never {outcome}"
            for place, outcomes in self.wanted.items()
            for outcome in sorted(outcomes - self.seen[place])
        ]

    def order(self, place: str, a: Any, b: Any) -> None:
        """An order: numbers below, at and above b."""
        self._compare(place, a, b, {BELOW, EQUAL, ABOVE})

    def equals(self, place: str, a: Any, b: Any) -> None:
        self._compare(place, a, b, {EQUAL, BESIDE})

    def limits(self, place: str, a: Any, b: Any) -> None:
        """A limit or the larger of two: where both are equal, broken numbers make no difference."""
        broken = any(torch.is_floating_point(torch.as_tensor(x)) for x in (a, b))
        self._compare(place, a, b, {BELOW, ABOVE} if broken else {BELOW, EQUAL, ABOVE})

    def _compare(self, place: str, a: Any, b: Any, wanted: set[str]) -> None:
        try:
            a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
        except (TypeError, ValueError, RuntimeError):  # words, None
            return
        ends = {BELOW: -math.inf, ABOVE: math.inf}  # nothing lies beyond them
        self.wanted[place] |= {x for x in wanted if x not in ends or not bool((b == ends[x]).all())}
        found = (BELOW, a < b), (EQUAL, a == b), (ABOVE, a > b), (BESIDE, a != b)
        self.seen[place] |= {x for x, met in found if bool(met.any())}

    def rest(self, place: str, a: Any, b: Any) -> None:
        """A quotient, or a rounding: whole, and not."""
        a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
        whole = torch.remainder(a, b)[b.expand_as(a + b) != 0] == 0
        self.wanted[place] = {WHOLE, BROKEN}
        self.seen[place] |= {x for x, met in ((WHOLE, whole), (BROKEN, ~whole)) if bool(met.any())}

    def truth(self, place: str, x: Any) -> Any:
        """A condition; returned as it is."""
        if not isinstance(x, Tensor) or x.numel() == 1:
            self.wanted[place] = {"true", "false"}
            self.seen[place].add("true" if x else "false")
        return x


class Watched(ast.NodeTransformer):
    """Puts a call of `Met` around whatever decides; the two sides of a comparison are computed twice."""

    def _told(self, how: str, node: ast.expr, *args: ast.expr, place: str = "") -> ast.Call:
        method = ast.Attribute(ast.Name("_met", ast.Load()), how, ast.Load())
        call = ast.Call(method, [ast.Constant(place or f"`{ast.unparse(node)}`"), *args], [])
        return ast.copy_location(call, node)

    def _beside(self, node: ast.expr, told: ast.Call) -> ast.expr:
        both = ast.Tuple([told, node], ast.Load())
        return ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), node)

    def visit_Compare(self, node):
        place = f"`{ast.unparse(node)}`"
        self.generic_visit(node)
        how = "order" if isinstance(node.ops[0], ORDERS) else "equals"
        if len(node.ops) > 1 or not isinstance(node.ops[0], ORDERS + EQUALS):
            return node
        return self._beside(node, self._told(how, node, node.left, *node.comparators, place=place))

    def visit_BinOp(self, node):
        place = f"`{ast.unparse(node)}`"
        self.generic_visit(node)
        words = isinstance(node.left, ast.Constant | ast.JoinedStr)
        if words or not isinstance(node.op, ast.FloorDiv | ast.Mod):
            return node
        return self._beside(node, self._told("rest", node, node.left, node.right, place=place))

    def visit_Call(self, node):
        place = f"`{ast.unparse(node)}`"
        self.generic_visit(node)
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if method else getattr(node.func, "id", "")
        plain = not any(isinstance(x, ast.Starred) for x in node.args)
        if name in EXTREMES and len(node.args) == 2 and plain:
            return self._beside(node, self._told("limits", node, *node.args, place=place))
        if name in ROUNDINGS and (method or len(node.args) == 1):
            number = node.args[0] if node.args else node.func.value
            return self._beside(
                node, self._told("rest", node, number, ast.Constant(1), place=place)
            )
        limits = (
            [*node.args, *(x.value for x in node.keywords)] if name in LIMITS and method else []
        )
        found = node
        for limit in limits:
            told = self._told(
                "limits", node, node.func.value, limit, place=f"{place}, {ast.unparse(limit)}"
            )
            found = self._beside(found, told)
        return found

    def _tested(self, node):
        place = f"`if {ast.unparse(node.test)}`"
        self.generic_visit(node)
        node.test = self._told("truth", node.test, node.test, place=place)
        return node

    visit_IfExp = _tested

    def visit_If(self, node):
        refuses = isinstance(node.body[-1], ast.Raise)  # what it asks is met by no call
        return node if refuses else self._tested(node)


def watched(path: Path, package: str) -> tuple[ModuleType, Met]:
    """The file as a module that tells what it meets, and whom it tells."""
    tree, met = Watched().visit(ast.parse(path.read_text(encoding="utf-8"))), Met()
    module = ModuleType(f"{package}.{path.stem}")
    module.__package__, module.__file__, module._met = package, str(path), met
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), vars(module))
    return module, met
