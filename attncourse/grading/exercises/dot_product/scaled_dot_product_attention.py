"""Exercise scaled_dot_product_attention: the equation, as code."""

from functools import partial

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases

CALLS = (  # what is special, b h n m d e, how loud
    ("2 samples, 3 heads, 5 queries, 7 keys, head_dim 11, values 13 wide", (2, 3, 5, 7, 11, 13), 1),
    ("as many queries as keys", (1, 2, 4, 4, 9, 4), 1),
    ("scores near 384 and -384", (1, 2, 4, 5, 4, 3), alternating),
    ("scores far below and far above zero", (1, 2, 3, 5, 16, 6), far_from_zero),
)
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b h m d, b h m e", calls=CALLS)


@Dataflow
def right(query, key, value):
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    weights = yield "the weights", scores.softmax(-1)
    return weights @ value, weights


EXERCISE = Exercise(
    name="scaled_dot_product_attention",
    judge=Calls(spec.scaled_dot_product_attention, CASES),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
)
