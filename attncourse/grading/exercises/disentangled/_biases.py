"""Tables of biases, a kind for each head, of which some are functions of i - j and others nearly are."""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case

ROUNDING, REAL, LOW = 1e-5, 1e-3, -math.inf


class Parts:
    """What tables (n, m) are made of.

    Args:
        relative: a random number for each i - j; ``halves``, one that ends in 5.
        number: random numbers, to be looked up by other indices.
        gram: products of random positions.
        along: where an entry stands on its diagonal, and ``length``, how long that diagonal is.
    """

    def __init__(self, n: int, m: int, g: torch.Generator):
        self.n, self.m, self.i, self.j = n, m, torch.arange(n)[:, None], torch.arange(m)
        self.distance = self.i - self.j
        self.number, self.noise = (
            torch.randn(99, generator=g).double(),
            torch.rand(n, m, generator=g),
        )
        self.relative = self.number[self.distance + m]
        decimal = 10.0 ** (1 + self.distance % 4)  # halves of a unit: round() tears them apart
        self.halves = (torch.floor(self.relative * decimal) + 0.5) / decimal
        positions = torch.randn(max(n, m), 5, generator=g).double()
        self.gram = positions[:n] @ positions[:m].T
        self.along = torch.minimum(self.i, self.j)
        self.length = torch.minimum(
            n - self.distance.clamp(min=0), m + self.distance.clamp(max=0)
        ).clamp(max=min(n, m))

    def off(self, where: Tensor, by: float | Tensor = 0.7) -> Tensor:
        """``relative``, with something added where the condition holds."""
        return torch.where(where, self.relative + by, self.relative)

    def at(self, i: int, j: int) -> Tensor:
        return (self.i == i) & (self.j == j)


class Kind(NamedTuple):
    """How a head is called, how its table is made, and what is true of it."""

    name: str
    make: Callable[[Parts], Tensor]
    why: str


GROUPS = (  # queries, keys, heads; the diagonals of the long ones are long enough for a drift
    (7, 11, (
        Kind("a number for each distance", lambda x: x.relative, "Each of its diagonals holds one number"),
        Kind("a function of i + j", lambda x: x.number[x.i + x.j],
             "Its diagonals from the upper right to the lower left are constant; those of i - j run the other way"),
        Kind("one number for each key", lambda x: x.number[: x.m].expand(x.n, -1),
             "Its columns are constant, and its diagonals are not: it depends on j alone"),
        Kind("the last row is off", lambda x: x.off(x.i == x.n - 1, x.number[: x.m].abs() + 0.5),
             "All of it but the last row is relative"),
        Kind("a far diagonal above is off", lambda x: x.off(x.at(0, x.m - 2)),
             "One number far above the main diagonal is off; the diagonals go on to j - i = m - 1"),
        Kind("one number everywhere", lambda x: x.number[0].expand(x.n, x.m), "A constant is a function of i - j"),
    )),
    (11, 7, (
        Kind("one number for each query", lambda x: x.number[: x.n, None].expand(-1, x.m),
             "Its rows are constant, and its diagonals are not: it depends on i alone"),
        Kind("ALiBi", lambda x: -0.25 * x.distance.abs(), "It falls with |i - j| and with nothing else"),
        Kind("the last column is off", lambda x: x.off(x.j == x.m - 1, x.number[: x.n, None].abs() + 0.5),
             "All of it but the last column is relative"),
        Kind("a far diagonal below is off", lambda x: x.off(x.at(x.n - 2, 0)),
             "One number far below the main diagonal is off; the diagonals go on to i - j = n - 1"),
        Kind("a number for each distance, rounded", lambda x: x.halves + 0.4 * ROUNDING * (2 * x.noise - 1),
             "Its diagonals differ by rounding only, by less than 1e-5"),
    )),
    (9, 9, (
        Kind("products of random positions", lambda x: x.gram, "P P^T knows both places, and not only their distance"),
        Kind("products of sines and cosines", lambda x: sum(torch.cos(x.distance * 10.0**-k) for k in range(4)),
             "It is a P P^T, and yet relative: products of sines and cosines depend on i - j alone"),
        Kind("cosines of random positions", lambda x: x.gram / (x.gram.diagonal()[:, None] * x.gram.diagonal()).sqrt(),
             "Only its main diagonal is constant"),
        Kind("relative above the main diagonal only", lambda x: x.relative.triu(1) + x.gram.tril(),
             "Its diagonals below the main one are not constant"),
        Kind("relative below the main diagonal only", lambda x: x.relative.tril(-1) + x.gram.triu(),
             "Its diagonals above the main one are not constant"),
        Kind("the main diagonal alone is off", lambda x: x.off(x.i == x.j, x.number[: x.m]),
             "All its diagonals but the main one are constant"),
        Kind("distances clipped at 3", lambda x: x.number[x.distance.clamp(-3, 3) + 3],
             "Far distances share a number, and still it is a function of i - j"),
    )),
    (10, 8, (
        Kind("blocks of 2 by 2", lambda x: x.number[x.i // 2 - x.j // 2 + x.m],
             "It is a function of i // 2 - j // 2: every second step along a diagonal changes it"),
        Kind("the same for i - j and j - i", lambda x: x.number[x.distance.abs()], "It is a function of |i - j|"),
        Kind("scaled for each key", lambda x: x.relative * (1 + 0.1 * x.j), "Each key has a scale of its own"),
        Kind("ups and downs that cancel", lambda x: x.off(x.along < x.length // 2 * 2, 0.3 * (-1.0) ** x.along),
             "The ups and downs along its diagonals cancel in a sum"),
        Kind("one number in the middle is off", lambda x: x.off(x.at(4, 3), -0.6),
             "One number in the middle of a diagonal is another"),
        Kind("signs that alternate", lambda x: x.relative * (-1.0) ** x.along, "Its sizes are relative, its signs are not"),
        Kind("a number far below zero is off", lambda x: x.off(x.at(5, 2)) - 60.0,
             "A number of about -60 is 0.7 off; for a softmax that is nothing, but it is the table that counts"),
        Kind("the first number is off", lambda x: x.off(x.at(0, 0)), "The number at [0, 0] is on the main diagonal, too"),
    )),
    (8, 12, (
        Kind("a causal mask over a number for each distance", lambda x: x.relative.masked_fill(x.j > x.i, LOW),
             "Minus infinity equals minus infinity, but their difference is NaN; a causal mask is a function of i - j"),
        Kind("a window", lambda x: x.relative.masked_fill(x.distance.abs() > 2, LOW),
             "Minus infinity equals minus infinity, but their difference is NaN; a window is a function of i - j"),
        Kind("a mask over the last two keys", lambda x: x.relative.masked_fill(x.j >= x.m - 2, LOW),
             "A number and minus infinity stand on one diagonal: which keys are hidden depends on j"),
        Kind("zeros, and a mask over the first key", lambda x: torch.zeros(x.n, x.m).masked_fill(x.j == 0, LOW),
             "A number and minus infinity stand on one diagonal: which keys are hidden depends on j"),
        *(Kind(f"minus infinity, and once {fill:g}", lambda x, fill=fill: x.relative.masked_fill(x.distance == 1, LOW).where(~x.at(4, 3), fill),
               "Minus infinity is no number, not even one that is far below zero") for fill in (-1.0, -10.0, -100.0, -1e3, -1e4)),
        Kind("one hidden pair", lambda x: x.relative.masked_fill(x.at(3, 5), LOW),
             "A number and minus infinity stand on one diagonal: one pair is hidden"),
    )),
    (24, 28, (
        Kind("a slow drift", lambda x: x.relative + 6e-5 * x.along,
             "It changes by 6e-5 a step along its diagonals, and by more than 1e-3 from one end to the other"),
        Kind("one faint number among large ones", lambda x: x.off(x.at(12, 14), 1.6 * REAL) + 20,
             "One number of a long diagonal is 1.6e-3 off, where all are about 20"),
        Kind("the last number of a long diagonal is off", lambda x: x.off(x.at(23, 25)), "One number at the end of a long diagonal is another"),
        Kind("repeats after 4 places", lambda x: x.number[x.distance % 4], "It is a function of (i - j) % 4"),
    )),
    (1, 6, (Kind("a single query", lambda x: x.relative, "A diagonal of one number is constant"),)),
    (5, 1, (Kind("a single key", lambda x: x.relative, "A diagonal of one number is constant"),)),
)  # fmt: skip


def shuffled(seed: int) -> list[tuple[int, int, list[Kind]]]:
    """The groups, the heads of each in an order of its own."""
    r = random.Random(seed)
    return [(n, m, r.sample(heads, len(heads))) for n, m, heads in GROUPS]


def cases(seed: int) -> list[Case]:
    """A call for each group of heads."""
    g, found = seeded(seed), []
    for n, m, heads in shuffled(seed):
        tables = torch.stack([kind.make(Parts(n, m, g)).double() for kind in heads])
        found.append(
            Case(f"{len(heads)} heads, {n} queries, {m} keys", (tables.float(),), gradients=False)
        )
    return found
