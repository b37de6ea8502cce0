"""Exercise sharpness: how sharp must the scores be before a soft dictionary acts like a hard one?"""

import math

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Exercise, Mistake, Number

KEYS, WANTED = 8, 0.99


def smallest_scale() -> int:
    """Try whole scales in turn on 8 orthonormal keys, one of which equals the query."""
    scale = 0
    while True:
        exponentials = [math.exp(scale * (j == 0)) for j in range(KEYS)]
        if exponentials[0] / sum(exponentials) > WANTED:
            return scale
        scale += 1


ACCEPTED = {
    "int": 7,
    "float": 7.0,
    "numpy": np.int64(7),
    "tensor": torch.tensor(7),
    "from_the_formula": math.ceil(math.log(0.99 / 0.01 * 7)),
}

MISTAKES = [
    Mistake("At 6 the right key has a weight of 0.983, still below 0.99.", 6),
    Mistake("That counts one rival; seven other keys share the rest of the weight.", 5),
    Mistake(
        "That is the exact crossing; the question asks for a whole number.",
        Close(torch.tensor(99 * 7.0, dtype=torch.float64).log(), rtol=5e-4),  # also when rounded
    ),
    Mistake("At 6.5 the weight is 0.9896, still below 0.99; and we ask for a whole number.", 6.5),
    Mistake("6.6 is enough, but the question asks for a whole number.", 6.6),
    Mistake("8 works, but 7 works already; look for the smallest.", 8),
    Mistake("10 works, but smaller scales work already; look for the smallest.", 10),
    Mistake("That is the weight to reach; the question asks for the scale that reaches it.", 0.99),
    Mistake("That is the ratio of weight and rest; the scale is its logarithm.", 99),
]

EXERCISE = Exercise(
    name="sharpness",
    answer="smallest_scale",
    title="From soft to hard",
    kind="Measure",
    points=1,
    difficulty=2,
    minutes=10,
    needs="section 'A dictionary that always answers' of chapter 1",
    judge=Number(smallest_scale),
    hints=(
        "With orthonormal keys the scores are: the scale for the right key, 0 for the seven others.",
        "Compute torch.softmax(scale * torch.eye(8)[0], dim=0)[0] for scale = 0, 1, 2, ...",
        "exp(s) / (exp(s) + 7) > 0.99 means s > log(693).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
