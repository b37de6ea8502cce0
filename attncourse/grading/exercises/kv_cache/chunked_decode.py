"""Exercise chunked_decode: attend for a chunk of new tokens behind a cache."""

import math
from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise, sized_cases
from attncourse.grading.inputs import alternating, far_from_zero


def join(past, new):
    return torch.cat([past, new], dim=2)


def definition(query, key, value, past_key, past_value):
    """The sum of the course over all keys so far; the longer keys and values are the next past."""
    keys, values = join(past_key, key), join(past_value, value)
    visible = spec.causal(query.size(2), keys.size(2), offset=past_key.size(2))
    return spec.scaled_dot_product_attention(query, keys, values, visible)[0], keys, values


CALLS = (  # what is special, b h n p d e, how loud
    ("4 new tokens behind 1, 2 samples, 3 heads, head_dim 6, values 8 wide", (2, 3, 4, 1, 6, 8), 1),
    *((f"{n} new, {p} cached", (2, 3, n, p, 5, 7), 1 if n == 2 else 2) for n in range(1, 5)
      for p in range(0, 4, n)),
    ("scores near 384 and -384", (1, 2, 5, 0, 4, 3), alternating),
    ("scores far below and above zero", (1, 2, 5, 0, 16, 3), far_from_zero),
)  # fmt: skip
SHAPES = "b h n d, b h n d, b h n e, b h p d, b h p e"
CASES = partial(sized_cases, letters="b h n p d e", shapes=SHAPES, calls=CALLS)


@Dataflow
def right(query, key, value, past_key, past_value):
    keys, values = join(past_key, key), join(past_value, value)
    scores = yield "the scaled scores", query @ keys.mT / query.size(-1) ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(past_key.size(2) + 1)
    weights = yield "the weights", scores.masked_fill(later, -math.inf).softmax(-1)
    return weights @ values, keys, values


EXERCISE = Exercise(
    name="chunked_decode",
    judge=Calls(definition, CASES),
    right=right,
    axes=("b h n e", "b h t d", "b h t e"),
    results=("the output", "the keys", "the values"),
)
