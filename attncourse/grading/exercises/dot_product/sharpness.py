"""Exercise sharpness: how sharp must scores be before a soft dictionary acts like a hard one?"""

import math
from itertools import count

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import predicted

KEYS, WANTED = 8, 0.99


def right() -> int:
    """Try whole scales in turn on 8 orthonormal keys, one of which equals the query."""
    return next(s for s in count() if math.exp(s) / (math.exp(s) + KEYS - 1) > WANTED)


def weight_there(scale: float) -> str:
    """The weight that a scale gives, and what is asked."""
    weight = 1 / (1 + (KEYS - 1) * math.exp(-max(scale, -600.0)))
    if weight <= WANTED:
        asks = f"not above {WANTED}; a larger scale is needed."
    elif scale != int(scale):
        asks = "which is enough, but a whole number is asked."
    else:
        asks = "which is enough, but a smaller whole scale is, too."
    return f"At a scale of {scale:g} the right key has a weight of {weight:.5g}, {asks}"


EXERCISE = Exercise(
    name="sharpness",
    answer="smallest_scale",
    judge=Number(right),
    right=right(),
    explain=(predicted(weight_there),),
    asks_for="number",
    ideas=[
        Mistake("That counts one rival; seven other keys share the rest of the weight.", 5),
        Mistake("That is the weight to reach; the scale that reaches it is asked.", 0.99),
        Mistake("That is the ratio of weight and rest; the scale is its logarithm.", 99),
        Mistake("That is the ratio of two exponentials; the scale is its logarithm.", 693),
        Mistake("The logarithm of base 10 leads here, but exp has the base e.", 3),
        Mistake("That is the scale with a division by sqrt(8), as in attention; here, nothing "
                "divides.", 19),
    ],
)  # fmt: skip
