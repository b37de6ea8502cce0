"""The test of a table of biases, in steps, and the steps that people replace."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercises.disentangled._biases import ROUNDING


def definition(bias: Tensor) -> list[bool]:
    """Entry by entry: all that stand on one diagonal agree."""
    found = []
    for table in bias.tolist():
        diagonals: dict[int, list[float]] = {}
        for i, row in enumerate(table):
            for j, x in enumerate(row):
                diagonals.setdefault(i - j, []).append(x)
        found.append(
            all(min(x) == max(x) or max(x) - min(x) < ROUNDING for x in diagonals.values())
        )
    return found


def near(x: Tensor, other: Tensor, tol: float = 1e-4) -> Tensor:
    """True where two numbers agree; minus infinity agrees with itself."""
    return torch.isclose(x, other, rtol=0, atol=tol)


@dataclass(frozen=True)
class Told:
    """A right answer in steps: a table is relative if every diagonal is constant.

    Args:
        table: what becomes of the tables first.
        offsets: (n, m) -> the diagonals that are looked at, as in ``torch.diagonal``.
        constant: the numbers of a diagonal, (heads, length) -> which heads have the same all along?
        every: the verdicts on the diagonals, (diagonals, heads) -> those on the heads.
        answer: these, a list -> what is returned.
    """

    table: Callable = lambda bias: bias
    offsets: Callable = lambda n, m: range(1 - n, m)
    constant: Callable = lambda x: near(x, x[:, :1]).all(1)
    every: Callable = lambda found: found.all(0)
    answer: Callable = list

    def __call__(self, bias):
        table = self.table(bias)
        diagonals = (table.diagonal(d, 1, 2) for d in self.offsets(*table.shape[1:]))
        found = torch.stack([self.constant(x) for x in diagonals])
        return self.answer(self.every(found).tolist())

    def but(self, says: str, **steps: Callable) -> Mistake:
        return Mistake(says, replace(self, **steps), steps)


def neighbours(tol):
    """Is each number near the next one?"""
    return lambda x: near(x[:, 1:], x[:, :-1], tol).all(1)


def within(tol):
    """Is each number near the first one?"""
    return lambda x: near(x, x[:, :1], tol).all(1)


def apart(x):
    """Differences from the first number of a diagonal; two hidden entries differ by 0."""
    return (x - x[:, :1]).nan_to_num(0, 1e9, -1e9)


def deviation(x):
    """The standard deviation as torch has it by default, without its warning: NaN for a single number."""
    return x.nan_to_num(neginf=-1e6).std(1) if x.size(1) > 1 else x[:, 0] * torch.nan


def visible(x):
    """Are the numbers near the first that is not hidden?"""
    first = x.gather(1, x.isfinite().long().argmax(1, keepdim=True))
    return (near(x, first) | x.isinf()).all(1)


def in_place(bias):
    """Hidden entries become a number, in the table of the caller."""
    return bias.masked_fill_(bias.isinf(), -1e9)


def square(bias):
    """The part with as many keys as queries."""
    return bias[:, : min(bias.shape[1:]), : min(bias.shape[1:])]


def tables(says, agree):
    """A mistake that looks at whole tables, all at once: (heads, n, m) -> agreement, entry by entry."""
    return Mistake(says, lambda bias: agree(bias).flatten(1).all(1))


def agreeing(judged, last=slice(None)):
    """A test that compares each entry with its neighbour on the diagonal, and judges all of that at once."""
    return lambda bias: judged(near(bias[:, 1:, 1:], bias[:, :-1, :-1]).flatten(1)[:, last])


def sized(bias):
    """The number that |i - j| has where it comes first, for each entry."""
    n, m = bias.shape[1:]
    first = torch.cat([bias[:, 0], bias[:, m:, 0]], 1)
    return first[:, (torch.arange(n)[:, None] - torch.arange(m)).abs()]


def of_first_row(bias):
    """The first row, shifted; below the main diagonal its first number."""
    n, m = bias.shape[1:]
    return bias[:, 0][:, (torch.arange(m) - torch.arange(n)[:, None]).clamp(min=0)]
