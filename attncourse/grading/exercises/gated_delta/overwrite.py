"""Exercise overwrite: what two memories say at a key that was written again."""

import math

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number
from attncourse.spec_linear import state_space

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

QUESTIONS = (
    "adding, a",
    "delta, a",
    "beta one half, a",
    "delta, c",
    "delta, a behind c",
    "adding, c",
)
SLIPS = (  # of each number: what is said, the wrong value
    (
        ("This memory adds, and here the last value has replaced the first one.", 2),
        ("This memory adds, and here the second value of a is left out.", 8),
        ("5 is the mean of both values; this memory adds them.", 5),
        ("b is counted as well; it is orthogonal to a, so that nothing of it is heard there.", 16),
        ("c is counted as well; it has not been written yet.", 16.6),
        ("6 is what b has written, or the difference of a's two values. The memory is asked a, and adds.", 6),
        ("The first value of a is subtracted; this memory adds.", -6),
    ),
    (
        ("The values of a are added; the delta rule writes the difference to what the memory says already.", 10),
        ("The first value of a is kept; with beta = 1 the second one replaces it.", 8),
        ("5 is the mean of both values, or what a says behind c. With beta = 1 the second value replaces the first, and c is not written yet.", 5),
        ("This is the difference that is written; the question is what the memory says afterwards.", -6),
        ("This is the difference of both values, or what b says; the question is what the memory says at a afterwards.", 6),
        ("The memory is not emptied at a: the second value stands there.", 0),
        ("The difference has the wrong sign: 8 - (2 - 8). It is added to what the memory says.", 14),
        ("This is what beta = 1/2 gives; here it is 1.", 3),
    ),
    (
        ("5 is half of 8 + 2. But the first token wrote half of its difference only, so that the memory said 4 when a came again.", 5),
        ("1 is half of the second value; the memory said 4 before, and goes half of the way from 4 to 2.", 1),
        ("This is the second value as a whole; the memory said 4 and goes half of the way to it.", 2),
        ("This is what the memory says behind the first token; a is written once more.", 4),
        ("The whole second value is added to 4; half of the difference, 2 - 4, is.", 6),
        ("This is the sum of both values; every token writes half of its difference only.", 10),
        ("This is the change at the second write; the question is what the memory says behind it.", -1),
        ("The second difference is halved twice; the memory goes half of the way from 4 to 2.", 3.5),
        ("The first value stands here as a whole; it was written with beta = 1/2, and a is written again.", 8),
        ("Half of the difference 2 - 8 is taken; the memory said 4 and not 8 when a came again.", -3),
    ),
    (
        ("The value of c is added to what the memory says there; the delta rule writes the difference.", 17),
        ("This is what the memory says at c before c is written; with beta = 1 it says the new value afterwards.", 6),
        ("This is the difference that is written; afterwards the memory says the new value.", 5),
        ("The memory adds here; the delta rule writes the difference to what it says already.", 21.8),
        ("This is what the adding memory says at c before c is written.", 10.8),
        ("This is half of the way from 6 to 11; beta is 1, so it is the whole way.", 8.5),
        ("This is what beta = 1/2 gives; here it is 1.", 7.6),
        ("The values are added without the angles between the keys; and with beta = 1 the last value stands at its own key.", 19),
        ("The values are added without the angles between the keys; and with beta = 1 the last value stands at its own key.", 27),
        ("What the memory holds of a and of b is added, 5 + 10; c hears 0.6 of the one and 0.8 of the other.", 15),
        ("c is 0.6 of a, but its value is written at c itself, with its length 1.", 6.6),
        ("c is 0.8 of b, but its value is written at c itself, with its length 1.", 8.8),
        ("The difference is added to the value, or counted twice; it is added to what the memory said, 6.", 16),
    ),
    (
        ("This is what a said before c was written. c is not orthogonal to a: 0.6 times the difference lands there.", 2),
        ("0.6 times the whole value of c lands at a here; the delta rule writes the difference to what c said, 11 - 6.", 8.6),
        ("The whole difference lands at a here; it lands there times 0.6, the product of both keys.", 7),
        ("The value of c is not said at a: 2 stands there, and 0.6 of the difference 11 - 6 is added.", 11),
        ("0.6 times 11 is what an adding memory hears of c alone; a says 2 before, and hears the difference only.", 6.6),
        ("This is what c has changed at a; what a said before, 2, is still there.", 3),
        ("0.8 is the share of b; the difference lands at a times 0.6.", 6),
        ("This is what the memory says at b; it is asked a.", 10),
        ("This is what the adding memory says at a; here 2 has replaced 8, and c writes a difference.", 16.6),
        ("a said 2 before c, not 8 + 2: the second write has replaced the first.", 13),
        ("a said 2 before c, not 8, and c said 6: the second write of a has replaced the first.", 8.84),
        ("What c changes at a is subtracted; 11 is more than the 6 that the memory said, so a rises.", -1),
        ("The difference is taken to what a says, 11 - 2; c is asked at its own key, where the memory says 6.", 7.4),
        ("0.36 is the square of the share; the difference lands at a times 0.6.", 3.8),
        ("Half of the difference is written; beta is 1.", 3.5),
        ("This is what beta = 1/2 gives; here it is 1.", 5.04),
    ),
    (
        ("c says only its own value; a and b are not orthogonal to it, and are heard there as well.", 11),
        ("c's own value is left out; it was added, too.", 10.8),
        ("Something of a or b is left out: besides its own 11, c hears 0.6 times 10 of a and 0.8 times 6 of b.", 17),
        ("a is counted with its first value only; this memory has added both.", 20.6),
        ("a is left out; its share at c is 0.6 times 10.", 15.8),
        ("The values are added without the angles between the keys; of a c hears 0.6, of b 0.8.", 27),
        ("The values are added without the angles between the keys, and a's first value is left out; of a c hears 0.6, of b 0.8.", 19),
        ("The shares are exchanged; of a c hears 0.6, of b 0.8.", 22.6),
        ("This is what the memory says at a; it is asked c.", 16.6),
        ("This is what the memory says at b; it is asked c.", 14.8),
        ("This is what the delta rule has at c before c is written; here everything is added.", 6),
        ("The value of c counts 0.6 + 0.8 times; a key of length 1 says its own value once.", 26.2),
        ("The squares of the shares are used; of a c hears 0.6, of b 0.8.", 18.44),
        ("This is what the delta rule writes; this memory adds the whole value of c.", 5),
    ),
)  # fmt: skip


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
    return (
        "this is NaN."
        if math.isnan(number)
        else f"this is too {'small' if number < RIGHT[k] else 'large'}."
    )


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
    name="overwrite", answer="answers", title="Written twice", kind="Predict",
    points=2, difficulty=2, minutes=12, needs="section 'A memory that can correct' of chapter 19",
    judge=Each(right), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Keep the memory as two numbers: what it says at (1, 0) and what it says at (0, 1). At any other key it says the product of this "
        "pair and the key. What does each token add to the pair?",
        "An adding memory gains value times key. The delta rule asks first what the memory says at the key, and gains beta times "
        "(value - what it said) times key.",
        "Behind three tokens the pair is (10, 6) if it adds, and (2, 6) by the delta rule with beta = 1. There c hears 0.6 * 2 + 0.8 * 6 = 6, "
        "so the difference is 5, and 0.6 * 5 is added to the first number.",
    ),
)  # fmt: skip
