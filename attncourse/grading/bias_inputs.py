"""Tables of biases, one for each head: some are functions of i - j, and others nearly are."""

import random
from collections.abc import Callable, Iterator
from math import inf
from types import SimpleNamespace

import torch
from torch import Tensor

from attncourse.grading.inputs import seeded

ROUNDING = 1e-5  # entries that should be equal differ by less


def parts(n: int, m: int, g: torch.Generator) -> SimpleNamespace:
    """What tables (n, m) are made of.

    i, j, d are places and distances; a is where an entry stands on its diagonal, and long how long
    that is; t has a number for each distance, halves one that ends in 5; r are numbers to be looked
    up by other indices, and p products of random positions.
    """
    i, j = torch.arange(n)[:, None], torch.arange(m)
    d, unit, number = i - j, 10.0 ** (1 + (i - j) % 4), torch.randn(99, generator=g).double()
    noise, p = torch.rand(n, m, generator=g), torch.randn(max(n, m), 5, generator=g).double()
    t = number[d + m]
    long = (n - d.clamp(min=0)).minimum(m + d.clamp(max=0))  # of the diagonal
    halves = ((t * unit).floor() + 0.5) / unit  # round() tears them apart
    return SimpleNamespace(n=n, m=m, i=i, j=j, d=d, a=torch.minimum(i, j), t=t, p=p[:n] @ p[:m].T,
                           r=number, noise=noise, halves=halves, long=long)  # fmt: skip


def off(x: SimpleNamespace, where: Tensor, by: float | Tensor = 0.7) -> Tensor:
    """A number for each distance, with something added where the condition holds."""
    return torch.where(where, x.t + by, x.t)


def at(x: SimpleNamespace, i: int, j: int) -> Tensor:
    """The place of one pair."""
    return (x.i == i) & (x.j == j)


Tables = dict[str, Callable[[SimpleNamespace], Tensor]]  # of the heads, by their names
GROUPS: tuple[tuple[int, int, Tables], ...] = (  # queries, keys
    (7, 11, {
        "a number for each distance i - j": lambda x: x.t,
        "a function of i + j": lambda x: x.r[x.i + x.j],
        "one number for each key": lambda x: x.r[: x.m].expand(x.n, -1),
        "relative but for its last row": lambda x: off(x, x.i == x.n - 1, x.r[: x.m].abs() + 0.5),
        "relative but for a number far above the diagonal": lambda x: off(x, at(x, 0, x.m - 2)),
        "a constant": lambda x: x.r[0].expand(x.n, x.m),
    }),
    (11, 7, {
        "one number for each query": lambda x: x.r[: x.n, None].expand(-1, x.m),
        "ALiBi": lambda x: -0.25 * x.d.abs(),
        "relative but for its last column":
            lambda x: off(x, x.j == x.m - 1, x.r[: x.n, None].abs() + 0.5),
        "relative but for a number far below the diagonal": lambda x: off(x, at(x, x.n - 2, 0)),
        "relative but for rounding": lambda x: x.halves + 0.4 * ROUNDING * (2 * x.noise - 1),
    }),
    (9, 9, {
        "products of random positions": lambda x: x.p,
        "products of sines and cosines, relative":
            lambda x: torch.stack([torch.cos(x.d * 10.0**-k) for k in range(4)]).sum(0),
        "cosines of random positions, with 1 all along the main diagonal":
            lambda x: x.p / (x.p.diagonal()[:, None] * x.p.diagonal()).sqrt(),
        "relative above the main diagonal alone": lambda x: x.t.triu(1) + x.p.tril(),
        "relative below the main diagonal alone": lambda x: x.t.tril(-1) + x.p.triu(),
        "relative but for the main diagonal": lambda x: off(x, x.i == x.j, x.r[: x.m]),
        "a number for each distance i - j, clipped at 3": lambda x: x.r[x.d.clamp(-3, 3) + 3],
    }),
    (10, 8, {
        "a function of i // 2 - j // 2": lambda x: x.r[x.i // 2 - x.j // 2 + x.m],
        "a function of |i - j|": lambda x: x.r[x.d.abs()],
        "relative, then scaled for each key": lambda x: x.t * (1 + 0.1 * x.j),
        "relative but for ups and downs that cancel":
            lambda x: off(x, x.a < x.long // 2 * 2, 0.3 * (-1.0) ** x.a),
        "relative but for one number in the middle": lambda x: off(x, at(x, 4, 3), -0.6),
        "relative but for its signs": lambda x: x.t * (-1.0) ** x.a,
        "relative but for 0.7, at numbers of about -60": lambda x: off(x, at(x, 5, 2)) - 60.0,
        "relative but for [0, 0]": lambda x: off(x, at(x, 0, 0)),
    }),
    (8, 12, {
        "relative, with a causal mask (minus infinity on whole diagonals)":
            lambda x: x.t.masked_fill(x.j > x.i, -inf),
        "relative, with a window (minus infinity on whole diagonals)":
            lambda x: x.t.masked_fill(x.d.abs() > 2, -inf),
        "relative but for a mask of two keys": lambda x: x.t.masked_fill(x.j >= x.m - 2, -inf),
        "zeros but for a mask of key 0":
            lambda x: torch.zeros(x.n, x.m).masked_fill(x.j == 0, -inf),
        **{f"relative, but once {fill:g} and not minus infinity": lambda x, fill=fill:
            x.t.masked_fill(x.d == 1, -inf).where(~at(x, 4, 3), fill)
           for fill in (-1.0, -10.0, -100.0, -1e3, -1e4)},
        "relative but for one hidden pair": lambda x: x.t.masked_fill(at(x, 3, 5), -inf),
    }),
    (24, 28, {
        "relative but for a slow drift": lambda x: x.t + 6e-5 * x.a,
        "relative but for 0.0016, at numbers of about 20":
            lambda x: off(x, at(x, 12, 14), 1.6e-3) + 20,
        "relative but for 0.005, at numbers of about 3,000":
            lambda x: off(x, at(x, 12, 14), 5e-3) + 3000,
        "relative but for the end of a long diagonal": lambda x: off(x, at(x, 23, 25)),
        "a function of (i - j) % 4": lambda x: x.r[x.d % 4],
    }),
)  # fmt: skip


def drawn(seed: int) -> Iterator[tuple[int, int, list[str], Tensor]]:
    """Of each group queries, keys, what the heads are called, in a new order, and their biases."""
    r, g = random.Random(seed), seeded(seed)
    for n, m, heads in GROUPS:
        names = r.sample(list(heads), len(heads))
        yield n, m, names, torch.stack([heads[x](parts(n, m, g)).double() for x in names]).float()
