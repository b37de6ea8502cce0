"""By which tokens a number has faded, said in words."""

import math
from itertools import combinations

from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.compare import same


def like(right, got) -> bool:
    """Can the two be compared number by number?"""
    return plain(got) and got.is_floating_point() and got.shape == right.shape


def nearly(calls) -> bool:
    """Are all results right but for rounding?"""
    return all(same(right, got, 0.02) for right, got in calls)


def span(first: int, last: int) -> str:
    """Tokens by their numbers."""
    if first > last:
        return "by no token"
    return f"by token {first} alone" if first == last else f"by tokens {first} to {last}"


def fading(number: float, logs: Tensor, first: int, last: int) -> str:
    """What a factor tells of the log-decays of a head: a run of tokens, first to last if it can be, or something else."""
    told = {0.0: "0", math.inf: "infinite"}
    if not math.isfinite(number) or abs(number) < 1e-6:
        return f"is {told.get(abs(number), f'{number:.3g}')}"
    runs = [(first, last), (0, -1), *((a, b - 1) for a, b in combinations(range(len(logs) + 1), 2))]
    for a, b in runs:
        total = float(logs[a : b + 1].sum())
        for says, power in (("has faded {}", 1), ("has grown instead of fading, {}", -1), ("has faded twice {}", 2)):  # fmt: skip
            if math.isclose(number, math.exp(power * total), rel_tol=2e-3, abs_tol=1e-5):
                return says.format(span(a, b))
    return f"is {number:.3g}, which is the fading of no run of tokens"
