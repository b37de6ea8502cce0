"""Claims that the result is the right one with one change, along an axis or in every number."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fresh.claims import NUMBER, claim
from fresh.evidence import NEAR, Evidence, alike, parts

NAME = r"^(?:[\w ]+: )?"  # of the result that is meant


def changed(evidence: Evidence, holds: Callable[[Tensor, Tensor], bool]) -> bool:
    """Does it hold, in every call, of one and the same result?"""

    def fits(a: Any, b: Any) -> bool:
        try:
            return isinstance(a, Tensor) and isinstance(b, Tensor) and holds(a.double(), b.double())
        except (RuntimeError, IndexError):  # shapes for which the change means nothing
            return False

    right = [parts(call.right) for call in evidence.calls]
    seen = [parts(call.seen) for call in evidence.calls]
    columns = zip(zip(*right, strict=False), zip(*seen, strict=False), strict=False)
    return any(all(map(fits, a, b)) for a, b in columns)


def along(evidence: Evidence, holds: Callable[[Tensor, Tensor, int], bool]) -> bool:
    """The same, along one and the same axis."""

    def fits(d: int) -> Callable[[Tensor, Tensor], bool]:
        return lambda a, b: d < a.dim() and (a.numel() < 2 or bool(holds(a, b, d)))

    return any(changed(evidence, fits(d)) for d in range(5))


@claim(NAME + r"The [\w ]+ stand in the opposite order")
def _flipped(found, evidence):
    return along(evidence, lambda a, b, d: alike(a.flip(d), b))


@claim(NAME + r"Everything is moved by one ")
def _moved(found, evidence):
    return along(evidence, lambda a, b, d: any(alike(a.roll(k, d), b) for k in (1, -1)))


@claim(NAME + r"The result of (the last )?[\w ]+? (?:\d+ )?stands at all ")
def _one_for_all(found, evidence):
    place = -1 if found[1] else 0

    def holds(a, b, d):
        return a.shape == b.shape and all(alike(a.select(d, place), x) for x in b.unbind(d))

    return along(evidence, holds)


@claim(NAME + r"The right results are (averaged|added up) over the ")
def _reduced(found, evidence):
    reduce = torch.mean if found[1] == "averaged" else torch.sum

    def holds(a, b, d):
        one = reduce(a, d)
        return alike(one, b) or b.dim() == a.dim() and all(alike(one, x) for x in b.unbind(d))

    return along(evidence, holds)


@claim(NAME + r"The result of (the last )?[\w ]+? (?:\d+ )?is missing")
def _missing(found, evidence):
    left = slice(None, -1) if found[1] else slice(1, None)
    return along(evidence, lambda a, b, d: alike(a.movedim(d, 0)[left], b.movedim(d, 0)))


INVERSE = {  # of the change that is claimed: of what came back it gives the right result
    "the right result with its sign turned": lambda a, b: alike(a + b, 0 * a),
    "the right result without its sign": lambda a, b: alike(a.abs(), b),
    "the exponential of": lambda a, b: alike(b.log(), a),
    "the logarithm of": lambda a, b: alike(a.log(), b),
    "the square of": lambda a, b: alike(a * a, b),
    "the square root of": lambda a, b: alike(a.sqrt(), b),
    "the sigmoid of": lambda a, b: alike(1 / (1 + (-a).exp()), b),
    # Beside a whole number rounding decides.
    "the right result rounded down": lambda a, b: bool(
        ((b <= a + NEAR) & (a - b < 1 + NEAR) & (b == b.round())).all()
    ),
    "1 minus": lambda a, b: alike(a + b, torch.ones_like(a)),
}


@claim(NAME + rf"This is ({'|'.join(INVERSE)})")
def _function(found, evidence):
    return changed(evidence, lambda a, b: a.numel() < 2 or INVERSE[found[1]](a, b))


EVERY = {
    "Every number is 1 too large": lambda a: a + 1,
    "Every number is 1 too small": lambda a: a - 1,
    "Negative numbers became 0": lambda a: a.clamp(min=0),
}


@claim(NAME + rf"({'|'.join(EVERY)})\.")
def _every(found, evidence):
    return changed(evidence, lambda a, b: a.numel() < 2 or alike(EVERY[found[1]](a), b))


@claim(
    rf"All is right, but where (minus infinity|infinity|0) belongs there are other numbers, such as {NUMBER}"
)
def _elsewhere(found, evidence):
    value = {"minus infinity": -math.inf, "infinity": math.inf, "0": 0.0}[found[1]]
    rest = lambda a, b: a.shape == b.shape and alike(a[a != value], b[a != value])  # noqa: E731
    return changed(evidence, rest)
