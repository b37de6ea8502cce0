"""Exercise repair_normalizer: sums that are divided by the wrong total, or by none."""

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.feature_inputs import (
    EXTREMES, drawn, elu_plus_one, extremes, faint, late, uneven,
)  # fmt: skip


def definition(query, key, value, is_causal):
    """The loops of the course, pair by pair."""
    if is_causal and query.size(2) != key.size(2):
        raise ValueError("a causal text has as many queries as keys")
    return spec.linear_attention(query, key, value, is_causal=is_causal)[0]


CALLS = (  # special about the call, b h n m d e (m = n where it is left out), what changes, causal
    ("is_causal=True, 2 samples, 3 heads, 5 tokens", (2, 3, 5, 4, 6), None, True),
    ("is_causal=False, 4 queries, 7 keys", (2, 3, 4, 7, 5, 3), None, False),
    ("is_causal=True, features near 0 and far from it", (1, 3, 7, 2, 4), uneven, True),
    (f"is_causal=True, {EXTREMES}", (2, 2, 5, 3, 4), extremes, True),
    (f"is_causal=False, {EXTREMES}", (1, 2, 4, 3, 3, 5), extremes, False),
    ("is_causal=True, the last key and value a million", (1, 2, 6, 3, 4), late, True),
    ("is_causal=False, 6 queries, 6 keys, all features near 0", (2, 2, 6, 3, 4), faint, False),
)


def cases(seed: int) -> list[Case]:
    return drawn(seed, CALLS)


@Dataflow
def right(query, key, value, is_causal):
    q = yield "the features of the queries", elu_plus_one(query)
    k = yield "the features of the keys", elu_plus_one(key)
    products = yield "the products of features", q @ k.mT
    weights = yield "the products of visible pairs", products.tril() if is_causal else products
    sums = yield "the weighted sums of the values", weights @ value
    total = yield "the sums of the weights", weights.sum(-1)
    return sums / total[..., None]


EXERCISE = Exercise(
    name="repair_normalizer",
    answer="normalized",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e",),
)
