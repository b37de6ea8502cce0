"""Exercise repair_rescaling: right only where the largest score comes first."""

import math
from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise, sized_cases
from attncourse.grading.inputs import alternating, far_below_zero


def definition(query, key, value, size):
    """The attention of the course, and the maxima of its scores, block by block."""
    output = spec.scaled_dot_product_attention(query, key, value)[0]
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    grown = torch.ones(scores.shape[:3]).double()
    for at in range(size, scores.size(3), size):
        grown += scores[..., at : at + size].amax(-1) > scores[..., :at].amax(-1)
    return output, grown


def far_below(query, key):
    """Make all scores about -1500 (head_dim 4), of whole numbers, which float32 does not round."""
    for x in (query, key):
        x.round_()
    query[..., 0], key[..., 0] = -60.0, 50.0


def repeated(query, key):
    """Whole numbers; the second half of the keys equals the first, so that maxima tie exactly."""
    half = key.size(2) // 2
    key[:, :, half:] = key[:, :, :half]
    for x in (query, key):
        x.round_()


CALLS = (  # special about the call, b h n m d e, how loud, keys in a block
    ("the second half of the keys repeats the first", (2, 3, 5, 6, 4, 7), repeated, 3),
    ("2 samples, 3 heads, 4 queries, 9 keys in blocks of 2", (2, 3, 4, 9, 6, 5), 1, 2),
    ("7 keys in blocks of 1", (2, 2, 3, 7, 4, 6), 1, 1),
    ("3 keys in one block", (3, 2, 4, 3, 5, 4), 1, 8),
    ("scores near 384 and -384", (1, 2, 5, 6, 4, 3), alternating, 2),
    ("scores far below zero", (1, 2, 5, 7, 4, 3), far_below, 3),
    ("scores below -2**27", (1, 2, 5, 7, 16, 3), far_below_zero, 3),
)
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b h m d, b h m e", calls=CALLS)


@Dataflow
def right(q, k, v, size):
    shape, root = q.shape[:3], q.size(-1) ** 0.5
    old = yield "the maxima at the start", torch.full(shape, -math.inf)
    total, mixed, grown = torch.zeros(shape), torch.zeros(*shape, v.size(-1)), torch.zeros(shape)
    for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
        scores = yield "the scores, divided by sqrt(head_dim)", q @ keys.mT / root
        top = yield "the largest scores of a block", scores.amax(-1).detach()
        new = yield "the new maxima", torch.maximum(old, top)
        weights = yield "the new exponentials", torch.exp(scores - new[..., None])
        past = yield "the factors exp(old maximum - new maximum)", torch.exp(old - new)
        total = yield "the sums so far", past * total + weights.sum(-1)
        fresh = yield "the weighted sums of new values", weights @ values
        mixed = yield "the accumulators so far", past[..., None] * mixed + fresh
        raised = yield "the marks of rows whose maximum grew", new > old
        grown, old = grown + raised, new
    return mixed / total[..., None], grown


EXERCISE = Exercise(
    name="repair_rescaling",
    answer="repaired_attention",
    judge=Calls(definition, CASES),
    right=right,
    axes=("b h n e", "b h n"),
    results=("the output", "the counts"),
    ideas=[
        right.but("The maximum starts at 0; all scores may be lower. Start at minus infinity.",
                  "the maxima at the start", torch.zeros_like),
    ],
)  # fmt: skip
