"""Exercise multi_query_attention: many query heads, one key/value head."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Exercise, Mistake
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases
from attncourse.grading.recipe import Given, Recipe, triangle


def definition(query, key, value, is_causal):
    """The loops of the course, with one key/value head."""
    return spec.grouped_query_attention(query, key[:, None], value[:, None], is_causal=is_causal)


CALLS = (  # special about the call, b h n m d e, how loud, is_causal
    ("2 samples, 3 heads, 4 queries, 5 keys, values 7 wide, causal", (2, 3, 4, 5, 6, 7), 1, True),
    ("the same, not causal", (2, 3, 4, 5, 6, 7), 1, False),
    ("causal, more queries than keys", (2, 2, 5, 3, 4, 6), 1, True),
    ("as many samples as heads", (3, 3, 4, 5, 2, 4), 1, False),
    ("as many queries as keys, causal", (1, 4, 5, 5, 3, 3), 1, True),
    ("1 head", (2, 1, 3, 4, 5, 5), 1, False),
    ("1 query, causal", (2, 3, 1, 4, 2, 5), 1, True),
    ("1 token", (1, 2, 1, 1, 3, 2), 1, True),
    ("large scores", (1, 2, 4, 5, 3, 6), 300, False),
    ("large scores, causal", (1, 2, 4, 4, 3, 6), 300, True),
    ("scores far below and above zero, causal", (1, 2, 4, 5, 16, 6), far_from_zero, True),
    ("scores near 768 and -768", (1, 2, 4, 5, 4, 3), alternating, False),
)
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b m d, b m e", calls=CALLS)


def given(query, key, value, is_causal):
    return Given(query, key[:, None], value[:, None], 0 if is_causal else None)


RIGHT = Recipe(given)


def mask_of_folded_rows(query, key, value, is_causal):
    h, n, m = *query.shape[1:3], key.size(1)
    scores = query.flatten(1, 2) @ key.mT / query.size(-1) ** 0.5
    visible = triangle(h * n, m, 0) if is_causal else triangle(h * n, m, m)
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return (weights @ value).unflatten(1, (h, n)), weights.unflatten(1, (h, n))


def laid_side_by_side(query, key, value, is_causal):
    k, v = (x.repeat(query.size(1), 1, 1).unflatten(0, query.shape[:2]) for x in (key, value))
    return Given(query, k, v, 0 if is_causal else None)


EXERCISE = Exercise(
    name="multi_query_attention",
    judge=Calls(definition, CASES),
    right=RIGHT,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    ideas=[
        Mistake("The causal mask counts the folded rows: the second head starts at row n, so it "
                "sees n keys more. Repeat the mask of one head.", mask_of_folded_rows),
        RIGHT.but("repeat(heads, 1, 1) lays the samples side by side, so heads read other samples.",
                  given=laid_side_by_side),
    ],
)  # fmt: skip
