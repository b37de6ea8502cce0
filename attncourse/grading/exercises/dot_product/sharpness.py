"""Exercise sharpness: how sharp must the scores be before a soft dictionary acts like a hard one?"""

import math
from itertools import count

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Exercise, Mistake
from attncourse.grading.exercises.dot_product._told import Told

KEYS, WANTED = 8, 0.99


def smallest_scale() -> int:
    """Try whole scales in turn on 8 orthonormal keys, one of which equals the query."""
    return next(s for s in count() if math.exp(s) / (math.exp(s) + KEYS - 1) > WANTED)


def rounded(x: float) -> Close:
    """A wrong number, also when it is rounded."""
    return Close(torch.tensor(x, dtype=torch.float64), rtol=1e-3)


def weight_there(scale: float) -> str:
    """What a scale would give, and what is asked."""
    weight = 1 / (1 + (KEYS - 1) * math.exp(-max(scale, -600.0)))
    if weight <= WANTED:
        asks = f"not above {WANTED}; a larger scale is needed."
    elif scale != int(scale):
        asks = "which is enough, but a whole number is asked."
    else:
        asks = "which is enough, but a smaller whole scale is, too."
    return f"At a scale of {scale:g} the right key has a weight of {weight:.5g}, {asks}"


ACCEPTED = {
    "int": 7,
    "float": 7.0,
    "numpy": np.int64(7),
    "tensor": torch.tensor(7),
    "from_the_formula": math.ceil(math.log(0.99 / 0.01 * 7)),
}

MISTAKES = [Mistake(says, number) for says, number in (
    ("At 6 the right key has a weight of 0.983, still below 0.99.", 6),
    ("That counts one rival; seven other keys share the rest of the weight.", 5),
    ("That counts one rival; seven other keys share the rest of the weight.", rounded(math.log(99))),
    ("That is the exact crossing; the question asks for a whole number.", rounded(math.log(693))),
    ("At 6.5 the weight is 0.9896, still below 0.99; and we ask for a whole number.", 6.5),
    ("6.6 is enough, but the question asks for a whole number.", 6.6),
    ("8 works, but 7 works already; look for the smallest.", 8),
    ("9 works, but smaller scales work already; look for the smallest.", 9),
    ("10 works, but smaller scales work already; look for the smallest.", 10),
    ("That is the weight to reach; the question asks for the scale that reaches it.", 0.99),
    ("That is the weight of the right key at scale 7; the question asks for the scale.",
     rounded(math.exp(7) / (math.exp(7) + 7))),
    ("That is the ratio of weight and rest; the scale is its logarithm.", 99),
    ("That is the ratio of the right exponential and one other; the scale is its logarithm.", 693),
    ("At 1 the right key has a weight of 0.28; the scores need a larger scale.", 1),
    ("At 2 the right key has a weight of 0.51; the scores need a larger scale.", 2),
    ("At 3 the right key has a weight of 0.74; the logarithm to the base 10 would lead here, but exp has the base e.", 3),
    ("At 4 the right key has a weight of 0.89, still below 0.99.", 4),
    ("That is the scale with a division by sqrt(8) as in attention; here the scores are 1 and 0 times the scale.", 19),
)]  # fmt: skip

EXERCISE = Exercise(
    name="sharpness",
    answer="smallest_scale",
    judge=Told(smallest_scale, tells=weight_there),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
