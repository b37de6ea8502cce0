"""Exercise extrapolation: how much weight goes to keys further than any in training?"""

import math

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

KEYS, SEEN, SLOPE = 256, 32, 1 / 8
QUESTIONS = "a bias that stops falling at 31", "a bias that goes on falling"


def right():
    """Of the last query, for a bias that stops falling at 31, and for one that goes on falling."""
    distance = torch.arange(KEYS).double()
    biases = -SLOPE * distance.clamp(max=SEEN - 1), -SLOPE * distance
    return tuple(bias.softmax(0)[distance >= SEEN].sum().item() for bias in biases)


RIGHT = right()
ONE = RIGHT[0] / (KEYS - SEEN)  # of the keys that have the same weight


def from_where(which: int, share: float) -> str:
    """The distance from which on keys have this share, where exp(-distance / 8) sums to it."""
    if not 0 < share < 1 or which == 0 and share > (KEYS - SEEN + 1) * ONE:
        return ""
    first = KEYS - share / ONE if which == 0 else -math.log(share) / SLOPE
    return f"So much goes to the keys from a distance of {first:.3g} on."


EXERCISE = Exercise(
    name="extrapolation",
    answer="far_shares",
    judge=Number(right, decimals=4),
    right=RIGHT,
    asks_for="number",
    results=QUESTIONS,
    explain=(predicted(from_where, Made(), Made()),),
)
