"""Tables of who reads whom: their judge, and the slips that everybody makes with them and where a window ends."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.diagnosis import Observations
from attncourse.grading.exercise import Calls, Mistake, cases_of


@dataclass(frozen=True)
class Tables(Calls):
    """`Calls` whose result is a table of pairs, and that can say which kinds of pairs are wrong.

    Args:
        kinds: ``kinds(expected, seen, *arguments)``: (what is wrong with these pairs, which they are); the first
            kind that a pair belongs to counts.
    """

    gradients: bool = False
    kinds: Callable[..., Iterator[tuple[str, Tensor]]] = lambda expected, seen, *_: iter(())

    def notice(self, expected: Observations, seen: Observations, seed: int) -> str:
        found = {}
        for case in cases_of(self, seed):
            right, got = (x.get(f"{case.label}, output") for x in (expected, seen))
            if not same_kind(right, got):
                return ""
            left = right != got
            for what, pairs in self.kinds(right, got, *case.args):
                here, left = left & pairs, left & ~pairs
                if here.any():
                    found.setdefault(what, f"{what} ({case.label}: {here.nonzero()[0].tolist()})")
        return f"What is wrong: {'; '.join(list(found.values())[:3])}." if found else ""


def same_kind(right: Any, got: Any) -> bool:
    """Can the two be compared number by number?"""
    comparable = plain(got) and got.shape == right.shape
    return comparable and (got.dtype == torch.bool) == (right.dtype == torch.bool)


FAR = 10**6
ENDS = {  # what is read of left and right, as keys before and keys behind
    "short on the left": ("The window is one key short on the left; it starts at i - left.", lambda a, b: a - 1, lambda a, b: b),
    "short on the right": ("The window is one key short on the right; it ends at i + right, and that key belongs to it.",
                           lambda a, b: a, lambda a, b: b - 1),
    "long on the left": ("The window is one key too long on the left; it starts at i - left.", lambda a, b: a + 1, lambda a, b: b),
    "long on the right": ("The window is one key too long on the right; it ends at i + right.", lambda a, b: a, lambda a, b: b + 1),
    "short": ("Both ends of the window are left out; keys i - left and i + right belong to it.", lambda a, b: a - 1, lambda a, b: b - 1),
    "long": ("The window is one key too long on each side; it goes from i - left to i + right.", lambda a, b: a + 1, lambda a, b: b + 1),
    "exchanged": ("Left and right are exchanged: query i reads back to i - left and ahead to i + right.", lambda a, b: b, lambda a, b: a),
    "left twice": ("left is used on both sides; ahead, the window ends at i + right.", lambda a, b: a, lambda a, b: a),
    "right twice": ("right is used on both sides; back, the window starts at i - left.", lambda a, b: b, lambda a, b: b),
    "sum": ("left + right is used on both sides; left counts the keys before the query, right those behind it.",
            lambda a, b: a + b, lambda a, b: a + b),
    "larger": ("The larger of left and right is used on both sides; left counts the keys before the query, right those behind it.",
               max, max),
    "halved": ("Half of left and half of right are taken; each of them counts the keys on its own side.",
               lambda a, b: a // 2, lambda a, b: b // 2),
    "half": ("left + right is taken for the whole window, half on each side; left counts the keys before the query, right those "
             "behind it.", lambda a, b: (a + b) // 2, lambda a, b: (a + b) // 2),
    "no right": ("Only the keys before the query and itself are read; right more stand behind it.", lambda a, b: a, lambda a, b: 0),
    "no left": ("Only the keys behind the query and itself are read; left more stand before it.", lambda a, b: 0, lambda a, b: b),
    "open on the left": ("The window has no left end: all earlier keys are read.", lambda a, b: FAR, lambda a, b: b),
    "open on the right": ("The window has no right end: all later keys are read.", lambda a, b: a, lambda a, b: FAR),
}  # fmt: skip


def ends(right, step: str, moved: Callable, without: tuple[str, ...] = ()) -> Iterator[Mistake]:
    """Windows that end elsewhere: ``moved(before, behind)`` is the step with other ends."""
    for name, (says, before, behind) in ENDS.items():
        if name not in without:
            yield right.but(says, **{step: moved(before, behind)})


def tables(right, one: str, axes: str) -> Iterator[Mistake]:
    """The right pairs in another form; ``one`` is what the first axis counts."""
    for says, finish in (
        ("True marks what is hidden here; it must mark what is read.", torch.logical_not),
        ("Rows and columns are exchanged: rows are queries, columns are keys.", lambda table: table.mT),
        ("The result holds numbers; its dtype must be torch.bool.", torch.Tensor.long),
        ("Zeros and minus infinities are a mask to be added; return booleans.", added),
        (f"This is the table of one {one}; return one for each, {axes}.", lambda table: table[0]),
        ("This says how many keys each query reads; return the table.", lambda table: table.sum(-1)),
    ):  # fmt: skip
        yield right.but(says, finish=finish)


def added(table: Tensor) -> Tensor:
    """A mask to be added to scores."""
    return torch.zeros(table.shape).masked_fill(~table, -math.inf)
