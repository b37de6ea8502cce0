"""Exercise sharpness: how sharp must scores be before a soft dictionary acts like a hard one?"""

import math
from itertools import count

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import Made, predicted

KEYS, WANTED = 8, 0.99


def right() -> int:
    """Try whole scales in turn on 8 orthonormal keys, one of which equals the query."""
    return next(s for s in count() if math.exp(s) / (math.exp(s) + KEYS - 1) > WANTED)


def weight_there(scale: float) -> str:
    """The weight that a scale gives, and what is asked."""
    weight = 1 / (1 + (KEYS - 1) * math.exp(-max(scale, -600.0)))
    if weight <= WANTED:
        asks = f"that is not above {WANTED}; a larger scale is needed."
    elif scale != int(scale):
        asks = "that is enough, but a whole number is asked."
    else:
        asks = "that is enough, but a smaller whole scale is, too."
    weights = f"the right key has a weight of {weight:.5g}, the {KEYS - 1} others share the rest"
    return f"At a scale of {scale:g} {weights}: {asks}"


EXERCISE = Exercise(
    name="sharpness",
    answer="smallest_scale",
    judge=Number(right),
    right=right(),
    explain=(predicted(weight_there, Made(exact=math.log(WANTED / (1 - WANTED) * (KEYS - 1)))),),
    asks_for="number",
    ideas=[
        Mistake("Here nothing divides by sqrt(8), as attention does.", 19),
    ],
)
