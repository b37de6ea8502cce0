"""By which tokens a number has faded, said in words."""

import math
from itertools import combinations

from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.symptoms import same


def like(right, got) -> bool:
    """Can the two be compared number by number?"""
    return plain(got) and got.is_floating_point() and got.shape == right.shape


def nearly(calls) -> bool:
    """Are all results right but for rounding?"""
    return all(same(right, got, 0.02) for right, got in calls)


def cut(expected: dict, seen: dict) -> str:
    """Results that are right, with gradients that are not; '' if something else is wrong as well."""
    others = [x for x in expected if ", gradient of " not in x]
    if any(difference(expected[x], seen.get(x)) for x in others):
        return ""
    names = [x for x in expected if ", gradient of " in x and not same(expected[x], seen.get(x))]
    if not names or any(not like(expected[x], seen.get(x)) for x in names):
        return ""
    name = names[0].rpartition("gradient of ")[2]
    if not all(seen[x].isfinite().all() for x in names):
        return f"The results are right, but the gradient of {name} has NaN or infinite numbers: an exponential that is infinite is hidden too late."
    return (
        f"The results are right, but the gradient of {name} is not: a part of its way back is cut, as by detach, item, clamp or "
        "no_grad, or changed."
        if any(seen[x].any() for x in names)
        else ""
    )


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
