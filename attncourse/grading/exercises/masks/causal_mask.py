"""Exercise causal_mask: who may read whom when nobody may look ahead."""

import math

import numpy as np
import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.masks._told import Told, wrong_pair
from attncourse.grading.mistakes import mistakes_of, rules
from attncourse.grading.recipe import Given, Recipe, triangle


def cases(seed: int) -> list[Case]:
    """More keys than queries, fewer, equally many, and the smallest sizes."""
    sizes = [(5, 7), (7, 3), (4, 4), (1, 3), (2, 1), (2 + seed % 5, 11), (130, 3), (2, 300)]
    return [Case(f"{n} queries, {m} keys", (n, m), gradients=False) for n, m in sizes]


def given(n, m):
    """Attention of n queries and m keys; only its mask is asked for."""
    return Given(torch.zeros(n, 1), torch.zeros(m, 1), torch.zeros(m, 1), 0)


RIGHT = Recipe(given, mask=lambda scores, x: scores, answer=lambda o, w, s, x: x.visible)
ACCEPTED = Accepted(lower_triangle=RIGHT)


@ACCEPTED.add
def comparison_of_positions(n, m):
    return torch.arange(m) <= torch.arange(n)[:, None]


@ACCEPTED.add
def loops(n, m):
    mask = torch.zeros(n, m, dtype=torch.bool)
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


@ACCEPTED.add
def not_the_future(n, m):
    return ~torch.triu(torch.ones(n, m), diagonal=1).bool()


@ACCEPTED.add
def nested_lists(n, m):
    return torch.tensor([[j <= i for j in range(m)] for i in range(n)])


@ACCEPTED.add
def numpy_triangle(n, m):
    return torch.from_numpy(np.tri(n, m, dtype=bool))


MISTAKES = Mistakes(mistakes_of(RIGHT, rules, without=("top left",)))
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("True marks the hidden pairs here; it must mark the pairs that may attend.",
     lambda n, m: ~triangle(n, m, 0)),
    ("The triangle is shifted by n - m; its corner is at query 0 and key 0.",
     lambda n, m: triangle(n, m, n - m)),
    ("The mask holds ones and zeros; its dtype must be torch.bool.", lambda n, m: torch.ones(n, m).tril()),
    ("Zeros and minus infinities are a mask to be added; return booleans.",
     lambda n, m: torch.full((n, m), -math.inf).triu(1)),
    ("0 times minus infinity is NaN: multiplying a triangle by -inf spoils the visible pairs.",
     lambda n, m: (1 - torch.ones(n, m).tril()) * -math.inf),
    ("The shape is (m, n); the queries are the rows: (n, m).", lambda n, m: triangle(m, n, 0)),
    ("The mask is transposed after it was built; its rows are the keys.", lambda n, m: triangle(n, m, 0).T),
    ("The mask is m by m; the number of queries n is not used.", lambda n, m: triangle(m, m, 0)),
    ("The mask has axes for batch and heads; return two axes (n, m), they broadcast.",
     lambda n, m: triangle(n, m, 0)[None, None]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="causal_mask",
    judge=Told(spec.causal, cases, gradients=False, tells=wrong_pair),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
