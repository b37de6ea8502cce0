"""Exercise multi_query_attention: many query heads, one key/value head."""

from functools import partial

from attncourse import spec
from attncourse.grading.exercise import Calls, Exercise, Given, Recipe
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases
from attncourse.grading.recipe import triangle


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


def folded(query, key, value, is_causal):
    """The mask that is_causal gives to the rows of all heads, one below the other."""
    h, n = query.shape[1:3]
    mask = triangle(h * n, key.size(1), 0).unflatten(0, (h, n)) if is_causal else None
    return Given(query, key[:, None], value[:, None], mask)


EXERCISE = Exercise(
    name="multi_query_attention",
    judge=Calls(definition, CASES),
    right=RIGHT,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    ideas=[
        RIGHT.but("The causal mask counts the folded rows: the second head starts at row n, so it "
                  "sees n keys more. Repeat the mask of one head.", given=folded),
        RIGHT.but("Keys and values are copied batch after batch, as repeat(heads, 1, 1) does it: "
                  "heads read other samples.",
                  given=lambda q, k, v, causal: Given(
                      q, *(x.repeat(q.size(1), 1, 1).unflatten(0, q.shape[:2]) for x in (k, v)),
                      0 if causal else None)),
    ],
)  # fmt: skip
