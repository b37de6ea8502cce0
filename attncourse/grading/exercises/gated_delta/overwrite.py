"""Exercise overwrite: what two memories say at a key that was written again."""

import math
from itertools import product

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

KEYS = dict(zip("abc", torch.tensor([[5, 0], [0, 5], [3, 4]]).double() / 5, strict=True))
WRITTEN = (("a", 8.0), ("b", 6.0), ("a", 2.0), ("c", 11.0))
RULES = {"an adding memory": None, "the delta rule with beta = 1": 1.0,
         "the delta rule with beta = 1/2": 0.5}  # fmt: skip


def says(asked: str, writes: int, beta: float | None) -> float:
    """What the memory of the first tokens says at a key; without beta values are only added."""
    memory = torch.zeros(2, dtype=torch.float64)
    for name, value in WRITTEN[:writes]:
        said = KEYS[name] @ memory if beta else 0.0
        memory = memory + (beta or 1.0) * (value - said) * KEYS[name]
    return float(KEYS[asked] @ memory)


ASKED = (  # in a few words, the arguments of `says`, and the thought that leads to the number
    ("adding, a", ("a", 3, None), "All values of which a part is heard at a are added."),
    ("delta, a", ("a", 3, 1.0),
     "With beta = 1 the last token with this key decides what is said there."),
    ("beta one half, a", ("a", 3, 0.5),
     "Token 0 writes half of the difference between 8 and nothing, and token 2 half of the "
     "difference to what then stands there."),
    ("delta, c", ("c", 4, 1.0),
     "With beta = 1 the memory says the value of c at c, right behind its token."),
    ("delta, a behind c", ("a", 4, 1.0),
     "Of the difference that c writes, to what was said at c, 0.6 lands at a."),
    ("adding, c", ("c", 4, None),
     "Of what stands at a c hears 0.6, of what stands at b 0.8, and its own value wholly."),
)  # fmt: skip


def right() -> tuple[float, ...]:
    return tuple(says(*question) for _, question, _ in ASKED)


RIGHT = right()  # 10, 2, 3, 11, 5, 21.8


def others(place: int) -> dict[str, float]:
    """What the memories say to other questions, those first that differ in one thing."""
    key, writes, beta = ASKED[place][1]
    asked = [
        (sum((k != key, n != writes, RULES[rule] != beta)), f"asking {rule} at {k} {when}", x)
        for k, n, rule in product(KEYS, (4, 3, 2, 1), RULES)
        for when, x in [(f"behind token {n - 1}", says(k, n, RULES[rule]))]
    ]
    return {how: x for _, how, x in sorted(asked) if x and not math.isclose(x, RIGHT[place])}


ALONE = {"writing all of 11 at c, not the difference": 2 + 0.6 * 11}
HEARD = {"what stands at a": 6.0, "what stands at b": 4.8, "the value of c": 11.0}  # at c
MADE = [Made(others=others(k) | (ALONE if k == 4 else {}), terms=HEARD if k == 5 else {})
        for k in range(6)]  # fmt: skip
EXERCISE = Exercise(
    name="overwrite",
    answer="answers",
    judge=Number(right),
    right=RIGHT,
    asks_for="number",
    results=tuple(name for name, *_ in ASKED),
    explain=(predicted(lambda place, number: ASKED[place][2], *MADE),),
)
