"""Exercise empty_row: a query that may read nothing."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.inputs import alternating, far_below_zero, sized_cases


def definition(query, key, value, mask):
    return spec.scaled_dot_product_attention(query, key, value, mask)


def cases(seed: int) -> list[Case]:
    holes = torch.rand(3, 1, 5, 7, generator=seeded(seed)) < 0.6
    holes[..., 0], holes[..., 2:4], holes[0, 0, 1] = False, True, True
    some = holes.clone()
    some[[0, 1, 1], 0, [1, 0, 4]] = some[2] = False
    far = torch.arange(3) < torch.tensor([[2], [0], [2]])
    calls = (  # what is special, b h n m d e, how loud, mask
        ("8 of 15 rows empty, all of sample 2 among them", (3, 2, 5, 7, 11, 13), 1, some),
        ("no row empty, scores near 384 and -384", (3, 2, 5, 7, 4, 6), alternating, holes),
        ("one mask for all, 2 of 5 rows empty, large scores", (2, 3, 5, 5, 3, 4), 400,
         some[1, 0, :, :5]),
        ("a hidden key has the largest scores", (2, 6, 3, 7, 4, 5), largest_hidden,
         holes[1, 0, :3]),
        ("visible scores of 536870912 and beyond on both sides of 0, a hidden one of 0",
         (1, 1, 3, 3, 16, 4), very_far, far),
        ("visible scores of 536870912 and beyond, a hidden one as far on the other side of 0",
         (1, 1, 3, 3, 16, 4), opposite, far),
    )  # fmt: skip
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def very_far(query, key):
    """Four times as far below 0 as `far_below_zero`, query 2 as far above; the last key has 0."""
    far_below_zero(query, key)
    query *= 4
    query[..., 2, :] *= -1
    key[..., -1, :] = 0.0


def opposite(query, key):
    """The scores of `very_far`; the last key has those of the opposite sign."""
    very_far(query, key)
    key[..., -1, :] = -key[..., 0, :]


def largest_hidden(query, key):
    """Make the scores of key 0 about 50, 150, 1000 more than the others, of query 0 about -200."""
    query[..., 0], key[..., 0], query[..., 0, 1], key[..., 1] = 1.0, 0.0, -20.0, 20.0
    key[:, :, 0, 0] = torch.tensor([100.0, 300.0, 2000.0]).repeat(2)


@Dataflow
def right(query, key, value, mask):
    empty = ~mask.any(-1, keepdim=True)
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    scores = scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0.0)
    weights = yield "the weights", scores.softmax(-1).masked_fill(empty, 0.0)
    return weights @ value, weights


EXERCISE = Exercise(
    name="empty_row",
    answer="attention",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
)
