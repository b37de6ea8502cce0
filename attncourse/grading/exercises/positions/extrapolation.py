"""Exercise extrapolation: how much weight goes to keys further than any in training?"""

import math

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

KEYS, SEEN, SLOPE = 256, 32, 1 / 8
QUESTIONS = "a bias that stops falling at 31", "a bias that goes on falling"


def sums(keys=KEYS, slope=SLOPE, weigh=torch.exp):
    """Of the last query the weights of near, far and all keys, and of the first far one.

    For a bias that stops falling at 31, and for one that goes on falling.
    """
    x = torch.arange(keys).double()
    for bias in (-slope * x.clamp(max=SEEN - 1), -slope * x):
        weights = weigh(bias)
        parts = weights[:SEEN], weights[SEEN:], weights, weights[SEEN : SEEN + 1]
        yield [part.sum().item() for part in parts]


def right(**other):
    return tuple(far / all_ for _, far, all_, _ in sums(**other))


RIGHT = right()
WHOLE = {
    "taking the mean over all 256 queries": tuple(
        sum(x) / KEYS for x in zip(*(right(keys=n) for n in range(1, KEYS + 1)), strict=True)
    ),
    "taking 2**bias for the weight, not exp(bias)": right(weigh=torch.exp2),
    "taking the bias itself for the weight, without exp": right(weigh=torch.neg),
    "dividing by the weight of the near keys, not of all": [far / near for near, far, *_ in sums()],
    "taking one key alone, at a distance of 32": [one / all_ for *_, all_, one in sums()],
    **{f"taking a slope of 2^-{k}": right(slope=2**-k) for k in range(9) if 2**-k != SLOPE},
    **{f"reading {n} keys": right(keys=n) for n in (KEYS - 1, KEYS + 1, KEYS + SEEN)},
}
ONE = RIGHT[0] / (KEYS - SEEN)  # of the keys that have the same weight


def from_where(which: int, share: float) -> str:
    """The distance from which on keys have this share, where exp(-distance / 8) sums to it."""
    if abs(share - RIGHT[1 - which]) < 5e-5:
        return f"So much is right for {QUESTIONS[1 - which]}."
    if not 0 < share < 1 or which == 0 and share > (KEYS - SEEN + 1) * ONE:
        return ""
    first = KEYS - share / ONE if which == 0 else -math.log(share) / SLOPE
    whole = abs(first - round(first)) < 0.02
    return f"So much goes to the keys from a distance of {round(first)} on." if whole else ""


EXERCISE = Exercise(
    name="extrapolation",
    answer="far_shares",
    judge=Number(right, decimals=4),
    right=RIGHT,
    asks_for="number",
    results=QUESTIONS,
    explain=(predicted(from_where, Made(), Made(), whole=WHOLE),),
)
