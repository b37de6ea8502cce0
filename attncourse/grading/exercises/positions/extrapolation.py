"""Exercise extrapolation: how much weight goes to keys further than any in training?"""

import math

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import each_predicted

KEYS, SEEN, SLOPE = 256, 32, 1 / 8
QUESTIONS = "a bias that stops falling at 31", "a bias that goes on falling"


def right():
    """Of the last query, for a bias that stops falling at 31, and for one that goes on falling."""
    distance = torch.arange(KEYS).double()
    biases = -SLOPE * distance.clamp(max=SEEN - 1), -SLOPE * distance
    return tuple(bias.softmax(0)[distance >= SEEN].sum().item() for bias in biases)


def from_where(which: int, share: float) -> str:
    """The distance from which on keys have this share, where exp(-distance / 8) sums to it."""
    if which == 0 or not 0 < share < 1:
        return ""
    return f"so much goes to the keys from a distance of {-math.log(share) / SLOPE:.3g} on."


RIGHT = right()
EXERCISE = Exercise(
    name="extrapolation",
    answer="far_shares",
    judge=Number(right, decimals=4),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted(QUESTIONS, from_where),),
)
