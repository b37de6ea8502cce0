"""Exercise repair_global: a causal model whose chunks read a state of the whole text, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.feature_inputs import EXTREMES, drawn, elu_plus_one, extremes, late, uneven


def definition(query, key, value, size):
    """The loops of the course, pair by pair; the size of a chunk changes nothing."""
    return spec.linear_attention(query, key, value, is_causal=True)[0]


def larger(query, key, value):
    """Head 0 has one key behind a query of its chunk that would round away all before."""
    extremes(query, key, value)
    key[:, 0, 4] = 20.0


CALLS = (  # special about the call, b h n d e, what changes the numbers, size
    ("2 samples, 3 heads, 7 tokens, chunks of 3, values 5 wide", (2, 3, 7, 4, 5), None, 3),
    ("values of 1 number, chunks of 4", (1, 2, 6, 2, 1), uneven, 4),
    ("chunks of 1, 2 samples, 3 heads", (2, 3, 5, 4, 6), None, 1),  # more of each than a chunk has
    ("one chunk, as long as the text", (3, 2, 6, 5, 3), None, 6),
    ("a chunk longer than the text", (2, 1, 5, 4, 6), None, 8),
    ("9 tokens, chunks of 2, the last key and value a million", (1, 2, 9, 3, 2), late, 2),
    ("11 tokens, chunks of 4, features near 0 and far from it", (1, 2, 11, 2, 3), uneven, 4),
    (f"7 tokens, chunks of 3, {EXTREMES}, once a larger one", (2, 2, 7, 3, 4), larger, 3),
)


def cases(seed: int) -> list[Case]:
    return drawn(seed, CALLS)


@Dataflow
def right(query, key, value, size):
    q = yield "the features of the queries", elu_plus_one(query)
    k = yield "the features of the keys", elu_plus_one(key)
    i, j = torch.arange(query.size(2))[:, None], torch.arange(query.size(2))
    earlier = yield "the weights of earlier chunks", q @ k.mT * (i // size > j // size)
    inside = (i // size == j // size) & (i >= j)
    own = yield "the weights inside a chunk", q @ k.mT * inside
    weights = yield "all weights, not yet divided", earlier + own
    sums = yield "the weighted sums of the values", weights @ value
    total = yield "the sums of the weights", weights.sum(-1)
    return sums / total[..., None]


EXERCISE = Exercise(
    name="repair_global",
    answer="causal_in_chunks",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e",),
)
