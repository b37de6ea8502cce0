"""Exercise overwrite: what two memories say at a key that was written again."""

import math

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number
from attncourse.grading.exercises.gated_delta._memories import GUIDES, QUESTIONS, SLIPS
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


def right() -> tuple[float, ...]:
    """The six numbers, by the loops of the course."""
    return (
        says(A, 3),
        says(A, 3, 1.0),
        says(A, 3, 0.5),
        says(C, 4, 1.0),
        says(A, 4, 1.0),
        says(C, 4),
    )


RIGHT = right()
ACCEPTED = Accepted(
    a_tuple=(10, 2, 3, 11, 5, 21.8),
    a_list_of_floats=[10.0, 2.0, 3.0, 11.0, 5.0, 21.8],
    a_tensor=torch.tensor([10, 2, 3, 11, 5, 21.8]),
    numpy=np.array([8 + 2, 2, 4 + 0.5 * (2 - 4), 11, 2 + 0.6 * (11 - 6), 11 + 0.6 * 10 + 0.8 * 6]),
    tensors_in_a_list=[torch.tensor(x) for x in (10.0, 2.0, 3.0, 11.0, 5.0, 21.8)],
)


class Each(Number):
    """`Number` for several, which knows the slips of each, however many are made at once."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.shape != (len(RIGHT),):
            return ""
        told = []
        for k, number in enumerate(found.value.tolist()):
            if not math.isclose(number, RIGHT[k], rel_tol=1e-6):
                told.append(f"Number {k + 1} ({QUESTIONS[k]}): {slip(k, number)}")
        return " ".join(told)


def slip(k: int, number: float) -> str:
    """What is known of a wrong number, or that nothing is."""
    known = [x for x, wrong in SLIPS[k] if math.isclose(number, wrong, rel_tol=1e-6, abs_tol=1e-6)]
    if known:
        return known[0]
    if math.isnan(number):
        return "this is NaN."
    if abs(number - RIGHT[k]) < 0.02 * RIGHT[k]:
        return "this is close, but all digits count."
    return f"this is too {'small' if number < RIGHT[k] else 'large'}. {GUIDES[k]}"


def instead(k: int, wrong: float) -> list[float]:
    """The right numbers but for one."""
    return [*RIGHT[:k], wrong, *RIGHT[k + 1 :]]


def other(*numbers: float) -> list[float]:
    """The right numbers where a None stands."""
    return [x if new is None else new for x, new in zip(RIGHT, numbers, strict=True)]


MISTAKES = Mistakes(
    Mistake(f"Number {k + 1} ({QUESTIONS[k]}): {says}", instead(k, wrong))
    for k, slips in enumerate(SLIPS)
    for says, wrong in slips
)
MISTAKES += [Mistake(says, numbers) for says, numbers in (
    ("All memories add here; in the questions 2 to 5 the delta rule writes the difference to what the memory says already.", other(None, 10, 10, 21.8, 16.6, None)),
    ("All memories add here, and beta = 1/2 halves the values; the delta rule writes differences.", other(None, 10, 5, 21.8, 16.6, None)),
    ("The adding memory replaces here, too: in questions 1 and 6 the values are added.", other(2, None, None, None, None, 11)),
    ("All keys are taken to be orthogonal; c hears 0.6 of a and 0.8 of b, and what is written at c lands at a and b.", other(None, None, None, None, 2, 11)),
    ("Questions 4 and 5 are exchanged: first c, then a.", other(None, None, None, 5, 11, None)),
    ("Questions 2 and 3 are exchanged: first beta = 1, then beta = 1/2.", other(None, 3, 2, None, None, None)),
    ("The adding memory and the delta rule are exchanged.", other(2, 10, None, 21.8, 16.6, 11)),
    ("The order is turned around; the first question comes first.", RIGHT[::-1]),
    ("Only five numbers are given, the last one is missing; give six.", RIGHT[:5]),
    ("Only five numbers are given, the first one is missing; give six.", RIGHT[1:]),
    ("Only three numbers are given, behind three tokens; three more are asked behind the fourth.", RIGHT[:3]),
    ("One number is given; give six.", RIGHT[0]),
    ("All numbers are divided by sqrt(2), as if scaled by the width of the keys; the memory is asked without a scale.", [x / math.sqrt(2) for x in RIGHT]),
    ("All numbers are halved; beta is 1/2 in question 3 only.", [x / 2 for x in RIGHT]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="overwrite", answer="answers", judge=Each(right), accepted=ACCEPTED, mistakes=MISTAKES
)
