"""A wrong number is traced back to the right one by what people do, and only where that gives this number."""

import math

import pytest
from support.tiny import tiny

from attncourse.grading import load
from attncourse.grading.exercise import Counts, Number
from attncourse.grading.explain.counts import Made, predicted
from attncourse.grading.observe import Case

pytestmark = pytest.mark.quick

CACHE = Made({"the 60 layers": 60, "the 2 bytes": 2}, {"the rotary key": 7680, "the latent": 61440})
WAYS = [  # right, wrong, what a right number is made of, the ways
    (69120, 61440, CACHE, ["leaving out the rotary key"]),
    (69120, 76800, CACHE, ["counting the rotary key twice"]),
    (69120, 1152, CACHE, ["leaving out the 60 layers"]),
    (69120, 576, CACHE, ["leaving out the 60 layers and leaving out the 2 bytes"]),
    (69120, 138240, CACHE, ["counting the 2 bytes twice"]),
    (69120, 552960, CACHE, ["multiplying the right one by 8"]),
    (69120, 67.5, CACHE, ["dividing the right one by 1,024"]),
    (69120, 70778.88, CACHE, ["taking 1,024 for 1,000"]),
    (69120, 69121, CACHE, []),
    (8, 0.125, Made(), ["dividing the right one by 64", "dividing 1 by the right one"]),
    (-2.0, 2, Made(others={"not dividing": 2}), ["not dividing", "turning the sign of the right one"]),
    (55 / 3, 18, Made(), ["rounding down", "rounding to the nearest"]),
    (55 / 3, 18.3, Made(), ["rounding to 1 decimal", "cutting off after 1 decimal"]),
    (7, 6, Made(exact=6.54), ["counting one too few", "rounding down"]),
    (7, 6.54, Made(exact=6.54), ["not rounding", "rounding to 2 decimals"]),
    (0.35752, 35.75, Made(), ["multiplying the right one by 100"]),
    (0.25, 0.75, Made(), ["subtracting the right one from 1"]),
    (-1, -math.sqrt(0.5), Made(), ["dividing the right one by sqrt(2)"]),
    (4, 0, Made(), []),
    (4, 5.3, Made(), []),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "made", "ways"), WAYS)
def test_all_ways_to_a_number_are_known(right, wrong, made, ways):
    assert made.ways(right, wrong)[: len(ways) or None] == ways


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((4, 2, 10), "The numbers are right, but in another order: number 1 stands in place 2 and number 2 stands in place 1."),
        ((1, 2, 5), "Numbers 1 (a), 2 (b) and 3 (c): one gets each by dividing the right one by 2."),
        ((1.4, 2.8, 7), "Numbers 1 (a), 2 (b) and 3 (c): each is 0.7 times the right number. Fact 0 of 1.4."),
        ((2, 4, 9), "Number 3 (c): one gets this by leaving out the last. Fact 2 of 9.0."),
        ((2, 4, 9.9), "Number 3 (c): this is 0.1 too small. Fact 2 of 9.9."),
        ((2, 4, math.nan), "Number 3 (c): this is NaN or infinite."),
        ((7, 8, 9), "One gets these numbers by counting on."),
        ((7, 8), "Asked are 3 numbers: a, b and c."),
    ],
)  # fmt: skip
def test_several_numbers_hear_first_what_they_have_in_common(answer, says):
    explain = predicted(
        lambda place, number: f"Fact {place} of {number}.",
        Made(), Made(), Made(terms={"the last": 1}), whole={"counting on": (7, 8, 9)},
    )  # fmt: skip
    exercise = tiny(Number(lambda: (2, 4, 10)), results=("a", "b", "c"), explain=(explain,))
    assert exercise.grade(answer).findings[0] == says


@pytest.mark.parametrize(
    ("answer", "says"),
    [(96, "One gets this number by multiplying the right one by 2. Fact."), (47.9, "This is 0.1 too small. Fact."),
     (33, "Fact."), (math.inf, "This is NaN or infinite.")],
)  # fmt: skip
def test_one_number_hears_its_ways_or_how_near_it_is(answer, says):
    exercise = tiny(Number(lambda: 48), explain=(predicted(lambda number: "Fact.", Made()),))
    assert exercise.grade(answer).findings[0] == says


def test_numbers_of_a_function_hear_what_holds_in_all_calls():
    cases = [Case(f"{n} tokens", (n,)) for n in (3, 5, 9)]
    counts = tiny(Counts(lambda n: (n * n, n), lambda seed: cases), results=("pairs", "tokens"))
    for answer, says in (
        (lambda n: (n * n + 1, n), "In 4 of 8 cases one gets the number by counting one too many."),
        (
            lambda n: (n, n * n),
            "The results are right, but pairs and tokens stand in another order.",
        ),
    ):
        assert counts.grade(answer).findings[0] == says
    assert counts.grade(lambda n: (float(n * n), n)).status == "passed"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("numbers_moved", (38537216, 76285952), "each by taking the values for 192 wide"),
        (
            "what_shrinks",
            (87.5, 43.75, 0, 0),
            "1 (cache), 2 (parameters), 3 (FLOPs) and 4 (scores): one gets each",
        ),
        ("score_std", math.sqrt(63) / 2, "adding up 63 products"),
        (
            "leaking_loss",
            math.log(50),
            "adding the losses up, without a mean, or by letting every position guess",
        ),
        (
            "who_reads_whom",
            [h // 3 + 1 for h in range(12)],
            "One gets these numbers by counting one too many.",
        ),
    ],
)
def test_exercises_say_it_in_their_words(name, answer, says):
    assert says in load(name).grade(answer).findings[0]
