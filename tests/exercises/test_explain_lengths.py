"""Axes that are too long, samples that meet, counts as products: told where they are so."""

import pytest
import torch
from support.tiny import tiny

from attncourse.grading.exercise import Calls
from attncourse.grading.explain.trainings import said_instead
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case

pytestmark = pytest.mark.quick

SIZES = (2, 3, 4), (3, 5, 2)
PERIODS = {"late": torch.arange(6.0).expand(2, 6) + 10}


def cases(seed):
    g = seeded(seed)
    return [Case(f"{b} of {n}", (torch.randn(b, n, d, generator=g), n)) for b, n, d in SIZES]


def twice(x, n):
    return 2 * x


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        ("the axis of tokens is 1 too long", lambda x, n: 2 * torch.cat([x, x[:, :1]], 1)),
        ("the axis of features is as long as n", lambda x, n: 2 * x[..., :1].expand(-1, -1, n)),
        ("the axis of samples is 2 times as long", lambda x, n: 2 * x.repeat(2, 1, 1)),
    ],
)
def test_what_is_told_is_so(says, answer):
    exercise = tiny(Calls(twice, cases, gradients=False), axes=("b t d",))
    verdict = exercise.grade(answer)
    assert says in verdict.findings[0]
    other = exercise.grade(lambda x, n: 2 * x + x.square())
    assert says not in " ".join(other.findings)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("late", lambda right: PERIODS["late"]),
        ("it is in the opposite order", lambda right: right.flip(1)),
        ("it is one place late", lambda right: right.roll(1, 1)),
        ("it says the same at every place", lambda right: right[:, :1].expand(2, 6)),
        ("", lambda right: right.square()),
    ],
)
def test_what_a_model_says_instead(words, said):
    right = torch.stack([torch.arange(6.0), torch.tensor([3.0, 1, 4, 1, 5, 9])])
    assert said_instead(said(right), right, PERIODS, torch.equal) == words
