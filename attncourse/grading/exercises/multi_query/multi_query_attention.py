"""Exercise multi_query_attention: many query heads, one key/value head."""

import math
from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise, Mistake, sized_cases
from attncourse.grading.inputs import alternating, far_from_zero


def definition(query, key, value, is_causal):
    """The loops of the course, with one key/value head."""
    return spec.grouped_query_attention(query, key[:, None], value[:, None], is_causal=is_causal)


CALLS = (  # special about the call, b h n m d e, how loud, is_causal
    ("2 samples, 3 heads, 4 queries, 5 keys, values 7 wide, causal", (2, 3, 4, 5, 6, 7), 1, True),
    ("the same, not causal", (2, 3, 4, 5, 6, 7), 1, False),
    ("causal, more queries than keys", (2, 2, 5, 3, 4, 6), 1, True),
    ("as many samples as heads", (3, 3, 4, 5, 2, 4), 1, False),
    ("as many queries as keys, causal", (1, 4, 5, 5, 3, 3), 1, True),
    ("scores far below and above zero, causal", (1, 2, 4, 5, 16, 6), far_from_zero, True),
    ("scores near 384 and -384", (1, 2, 4, 5, 4, 3), alternating, False),
)
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b m d, b m e", calls=CALLS)


@Dataflow
def right(query, key, value, is_causal):
    n, m = query.size(2), key.size(1)
    later = torch.ones(n, m, dtype=torch.bool).triu(1 if is_causal else m)
    scores = yield "the scaled scores", query @ key[:, None].mT / query.size(-1) ** 0.5
    weights = yield "the weights", scores.masked_fill(later, -math.inf).softmax(-1)
    return weights @ value[:, None], weights


def folded(query, key, value, is_causal):
    """The heads as rows, one below the other, masked as if they were one."""
    output, weights = right(query.flatten(1, 2)[:, None], key, value, is_causal)
    return tuple(x[:, 0].unflatten(1, query.shape[1:3]) for x in (output, weights))


EXERCISE = Exercise(
    name="multi_query_attention",
    judge=Calls(definition, CASES),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    ideas=[
        Mistake("The causal mask counts the folded rows: the second head starts at row n, so it "
                "sees n keys more. Repeat the mask of one head.", folded),
    ],
)  # fmt: skip
