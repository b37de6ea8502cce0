"""Exercise grouped_query_attention: groups share a key/value head, and nothing is copied."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Dataflow, Described, Exercise
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited

CALLS = (  # what is special, b h g n m d e, how loud
    ("4 samples, 6 query heads, 2 KV heads, 5 queries, 7 keys, head_dim 10, values 9 wide",
     (4, 6, 2, 5, 7, 10, 9), 1),
    ("8 query heads, 2 KV heads, more queries than keys", (1, 8, 2, 5, 3, 4, 6), 1),
    ("as many KV heads as heads in a group", (3, 4, 2, 3, 5, 6, 6), 1),
    ("as many KV heads as query heads", (2, 3, 3, 4, 5, 6, 2), 1),
    ("all sizes equal to 4", (4, 4, 4, 4, 4, 4, 4), 1),
    ("scores near 384 and -384", (1, 4, 2, 4, 5, 4, 3), alternating),
)  # fmt: skip
CASES = partial(
    sized_cases, letters="b h g n m d e", shapes="b h n d, b g m d, b g m e", calls=CALLS
)


def definition(query, key, value):
    """The loops of the course; the weights are not asked for."""
    return spec.grouped_query_attention(query, key, value)[0]


def step(generator, b, h, g, m, d, e) -> list:
    """One decoding step; values are narrower than keys, so that enable_gqa copies too."""
    return normal(generator, (b, h, 1, d), (b, g, m, d), (b, g, m, e))


def memory(answer) -> bool | str:
    """True when no large tensor was made, with 4 query heads to a group; else what was seen."""
    args = step(torch.Generator().manual_seed(7), b=2, h=12, g=3, m=300, d=20, e=16)
    made, most = as_answer(answer).allocations(*args), 2 * args[1].numel()
    return made.largest <= most or Described(f"no, one holds {made.largest:,}: {made.how}")


def folded(heads, matrix):
    """Heads (b, h, n, d) times (b, g, d, m): those of a group are the rows of one product."""
    rows = heads.unflatten(1, (matrix.size(1), -1)).flatten(2, 3) @ matrix
    return rows.unflatten(2, (-1, heads.size(2))).flatten(1, 2)


@Dataflow
def with_weights(query, key, value):
    products = yield "the products of queries and keys", folded(query, key.mT)
    weights = yield "the weights", (products / query.size(-1) ** 0.5).softmax(-1)
    return folded(weights, value), weights


def right(query, key, value):
    return with_weights(query, key, value)[0]


EXERCISE = Exercise(
    name="grouped_query_attention",
    judge=MemoryLimited(
        Calls(definition, CASES),
        "one query, 300 keys: no tensor holds more than twice the numbers of key",
        memory,
        Budget(  # 32 query heads to a KV head: 8 MiB of keys would become 256 MiB
            partial(step, b=1, h=64, g=2, m=16_384, d=64, e=16),
            partial(F.scaled_dot_product_attention, enable_gqa=True),
            mib=100,
        ),
        instead="repeat_interleave copies the keys for every query head, and so do a matmul that "
        "broadcasts, and enable_gqa=True when values and keys differ in width. Fold the heads of a "
        "group into its queries.",
    ),
    right=right,
    axes=("b h n e",),
)
