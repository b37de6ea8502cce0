"""Exercise extrapolation: how much weight goes to keys that are further than anything in training?"""

from dataclasses import dataclass

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

KEYS, SEEN, SLOPE = 256, 32, 1 / 8


def shares(keys=KEYS, last=SEEN - 1, slope=SLOPE, seen=SEEN, first=0) -> tuple[float, float]:
    """Of a query at the end, for a bias that stops falling at ``last``, and for one that goes on."""
    distance = torch.arange(first, keys).double()
    found = []
    for biased in (distance.clamp(max=last), distance):
        weights = torch.softmax(-slope * biased, dim=0)
        found.append(weights[distance >= seen].sum().item())
    return tuple(found)


@dataclass(frozen=True)
class Shares(Number):
    """Two shares, of which those that are wrong are told to be too large or too small."""

    def notice(self, expected, seen, seed: int) -> str:
        found, right = seen["the number"], expected["the number"].value
        if not isinstance(found, Close) or found.value.shape != right.shape:
            return ""
        says = []
        for k, (x, y) in enumerate(zip(found.value.tolist(), right.tolist(), strict=True)):
            how = (
                "close, but not right to four decimals"
                if abs(x - y) < 5e-3
                else "too large"
                if x > y
                else "too small"
            )
            says += [f"number {k + 1} is {how}"] * (abs(x - y) > 0.5001e-4)
        return f"{'; '.join(says).capitalize()}."


RIGHT = shares()
ACCEPTED = Accepted(
    tuple_of_floats=RIGHT,
    four_decimals=[0.3575, 0.0183],
    tensor=torch.tensor(RIGHT),
    numpy=np.array(RIGHT),
)

MISTAKES = Mistakes(Mistake(says, numbers) for says, numbers in (
    ("The two are exchanged: first the bias that stops falling, then the one that goes on.", RIGHT[::-1]),
    ("These are the shares of the near keys, up to distance 31; the far ones are asked.", [1 - x for x in RIGHT]),
    *(("These are percentages; shares lie between 0 and 1.", [round(100 * x, k) for x in RIGHT]) for k in (1, 2, 9)),
    ("Distance 31 is counted as far; training reached it.", shares(seen=SEEN - 1)),
    ("Distance 32 is not counted as far; training ended at 31.", shares(seen=SEEN + 1)),
    ("The bias stops falling at 32; the last distance of the training is 31.", shares(last=SEEN)),
    ("The query itself, at distance 0, is left out; a query reads itself.", shares(first=1)),
    ("Both keep falling beyond 31; the first one stops.", [RIGHT[1], RIGHT[1]]),
    ("Both stop falling at 31; the second one goes on.", [RIGHT[0], RIGHT[0]]),
    ("Without a bias all keys are alike: that is the number of far keys over all.", [224 / 256, 224 / 256]),
    ("The slope is 1 here; it is 1/8.", shares(slope=1.0)),
    ("The slope is 1/4 here; it is 1/8.", shares(slope=0.25)),
    ("The slope is 1/16 here; it is 1/8.", shares(slope=1 / 16)),
    ("The bias is added here, so far keys are preferred; it is subtracted.", shares(slope=-SLOPE)),
    ("Only 64 keys are read here; there are 256.", shares(keys=64)),
    ("Only one of the two shares is given.", RIGHT[0]),
    ("Only one of the two shares is given: that of the bias that goes on.", RIGHT[1]),
    *(("Four decimals, please.", [round(x, k) for x in RIGHT]) for k in (2, 3)),
))  # fmt: skip

EXERCISE = Exercise(
    name="extrapolation",
    answer="far_shares",
    judge=Shares(shares, decimals=4),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
