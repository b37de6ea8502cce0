"""Exercise rotate_cached_keys: rotary positions that restart behind the cache, repaired."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise, sized_cases
from attncourse.grading.exercises.kv_cache import chunked_decode
from attncourse.grading.exercises.kv_cache.chunked_decode import SHAPES, join
from attncourse.grading.heads import rotary


def definition(query, key, value, past_key, past_value):
    """Queries and new keys turn by past, past + 1, ...; the cached keys are turned already."""
    places = [past_key.size(2) + i for i in range(query.size(2))]
    query, key = spec.rotary(query, places), spec.rotary(key, places)
    return chunked_decode.definition(query, key, value, past_key, past_value)


def opposite(query, key):
    """Make the score of a token with itself below -1e8, and above 1e8, in turn."""
    key[..., 0] = 3.0
    query.copy_(4e7 * key * (-1.0) ** torch.arange(1, 1 + key.size(2))[:, None])


def far_below_zero(query, key):
    """Make the score of key j about -20000 - 20 j (head_dim 16): only the slowest pair turns."""
    query.zero_()[..., 7] = -400.0
    key.zero_()[..., 7] = 200.0 + 0.2 * torch.arange(key.size(2))


CALLS = (  # what is special, b h n p d e, how loud
    ("4 new tokens behind 5, 2 samples, 3 heads, head_dim 6, values 8 wide", (2, 3, 4, 5, 6, 8), 1),
    ("nothing cached, 4 tokens", (2, 1, 4, 0, 8, 6), 2),
    ("1 new token behind 30", (1, 1, 1, 30, 8, 4), 2),
    ("scores far below zero", (1, 2, 5, 0, 16, 6), far_below_zero),
    ("scores of both signs, very large", (1, 2, 5, 0, 4, 6), opposite),
)
CASES = partial(sized_cases, letters="b h n p d e", shapes=SHAPES, calls=CALLS)


@Dataflow
def right(query, key, value, past_key, past_value):
    past, n = past_key.size(2), query.size(2)
    places = yield "the positions of the new tokens", past + torch.arange(n)
    query = yield "the turned queries", rotary(query, places)
    key = yield "the turned new keys", rotary(key, places)
    keys = yield "the keys of all tokens", join(past_key, key)
    values = yield "the values of all tokens", join(past_value, value)
    scores = yield "the scores", query @ keys.mT / query.size(-1) ** 0.5
    visible = yield "the visible pairs", torch.ones(n, past + n).tril(past).bool()
    weights = yield "the weights", scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return weights @ values, keys, values


EXERCISE = Exercise(
    name="rotate_cached_keys",
    answer="step",
    judge=Calls(definition, CASES),
    right=right,
    axes=("b h n e", "b h t d", "b h t e"),
    results=("the output", "the keys", "the values"),
)
