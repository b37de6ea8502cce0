"""Exercise overwrite: what two memories say at a key that was written again."""

import math

import torch

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import each_predicted
from attncourse.spec import state_space

A, B, C = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)
WRITTEN = ((A, 8.0), (B, 6.0), (A, 2.0), (C, 11.0))


def says(question: tuple[float, float], writes: int, beta: float | None = None) -> float:
    """What the memory of the first tokens says at a key; without beta values are only added."""
    tokens, numbers = zip(*WRITTEN[:writes], strict=True)
    key = torch.tensor(tokens, dtype=torch.float64)[None, None]
    value = torch.tensor(numbers, dtype=torch.float64)[None, None, :, None]
    logs = torch.zeros(1, 1, writes, dtype=torch.float64)
    strength = None if beta is None else torch.full_like(logs, beta)
    _, state = state_space(key, key, value, logs, strength)
    return float(torch.tensor(question, dtype=torch.float64) @ state[0, 0, :, 0])


ASKED = (  # in a few words, the arguments of `says`, and the thought that leads to the number
    ("adding, a", (A, 3), "All values of which a part is heard at a are added."),
    ("delta, a", (A, 3, 1.0),
     "With beta = 1 the last token with this key decides what is said there."),
    ("beta one half, a", (A, 3, 0.5),
     "Token 0 writes half of the difference between 8 and nothing, and token 2 half of the "
     "difference to what then stands there."),
    ("delta, c", (C, 4, 1.0),
     "With beta = 1 the memory says the value of c at c, right behind its token."),
    ("delta, a behind c", (A, 4, 1.0),
     "Of the difference that c writes, to what was said at c, 0.6 lands at a."),
    ("adding, c", (C, 4),
     "Of what stands at a c hears 0.6, of what stands at b 0.8, and its own value wholly."),
)  # fmt: skip
OTHERS = {  # questions whose right number may stand in the place of another one's
    **{f"what an adding memory says at {name}": (key, 4) for name, key in zip("abc", (A, B, C))},  # noqa: B905
    "what an adding memory says at a behind token 0": (A, 1),
    "what the delta rule with beta = 1 says at a behind token 0": (A, 1, 1.0),
    "what the delta rule with beta = 1/2 says at a behind token 0": (A, 1, 0.5),
    "what the delta rule with beta = 1 says at c before c is written": (C, 3, 1.0),
    "what an adding memory says at c before c is written": (C, 3),
    "what the delta rule with beta = 1 says at b behind c": (B, 4, 1.0),
    **{f"what the delta rule with beta = 1/2 says at {name} behind c": (key, 4, 0.5)
       for name, key in zip("ac", (A, C))},  # noqa: B905
    **{f"the answer to '{name}'": question for name, question, _ in ASKED},
}  # fmt: skip


def right() -> tuple[float, ...]:
    """The six numbers, by the loops of the course."""
    return tuple(says(*question) for _, question, _ in ASKED)


def told(place: int, number: float) -> str:
    """Which other question a number answers, and what leads to the right one."""
    found = (name for name, x in OTHERS.items() if math.isclose(says(*x), number, rel_tol=1e-6))
    other = next(found, "")
    size = "small" if number < right()[place] else "large"
    this = f"this is {other}" if other else f"this is too {size}"
    return f"{this}. {ASKED[place][2]}"


RIGHT = right()
EXERCISE = Exercise(
    name="overwrite",
    answer="answers",
    judge=Number(right),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted([name for name, *_ in ASKED], told),),
    ideas=[
        Mistake(
            "All numbers are divided by sqrt(2), as if scaled by the width of the keys; the memory "
            "is asked without a scale.",
            [x / math.sqrt(2) for x in RIGHT],
        ),
        Mistake(
            "All keys are taken to be orthogonal; c hears 0.6 of a and 0.8 of b, and what is "
            "written at c lands at a and b.",
            [*RIGHT[:4], 2, 11],
        ),
    ],
)
