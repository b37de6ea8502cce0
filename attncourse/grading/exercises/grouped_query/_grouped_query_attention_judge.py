"""The judge of grouped_query_attention: right outputs, and no copy of the keys for every query head."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.allocations import made_by
from attncourse.grading.compare import Case, Raised
from attncourse.grading.memory_judge import Budget

# One decoding step: 4 query heads to a group, and values narrower than keys, so that enable_gqa copies too.
STEP = {"b": 2, "h": 12, "g": 3, "n": 1, "m": 300, "d": 20, "e": 16}
SIZE = "one query, 300 keys: no tensor holds more than twice the numbers of key"


def definition(query, key, value):
    """The loops of the course; the weights are not asked for."""
    return spec.grouped_query_attention(query, key, value)[0]


def call(generator, b, h, g, n, m, d, e, loud=1.0) -> tuple:
    """Query, key and value."""
    shapes = (b, h, n, d), (b, g, m, d), (b, g, m, e)
    query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
    return loud * query, key, value


def cases(seed: int) -> list[Case]:
    """Every axis its own size; both ends of the dial; equal axes; one query; one token; large scores."""
    g = torch.Generator().manual_seed(seed)
    # Scores near 768 and -768: exp has no number for them, in float64 either.
    far = call(g, 1, 2, 1, 4, 5, 4, 4)
    far[0][..., 0], far[1][..., 0] = torch.tensor([24.0, -24.0, 24.0, -24.0]), 64.0
    sizes = "2 samples, 6 query heads, 3 key heads, 4 queries, 5 keys, head_dim 7, values 8 wide"
    return [
        Case(sizes, call(g, 2, 6, 3, 4, 5, 7, 8)),
        Case("8 query heads, 2 key heads, more queries than keys", call(g, 1, 8, 2, 5, 3, 4, 6)),
        Case("as many key heads as heads in a group", call(g, 2, 4, 2, 3, 5, 6, 6)),
        Case("as many key heads as query heads", call(g, 2, 3, 3, 4, 5, 6, 2)),
        Case("1 key head", call(g, 2, 4, 1, 3, 5, 2, 6)),
        Case("all sizes equal to 4", call(g, 4, 4, 4, 4, 4, 4, 4)),
        Case("1 query", call(g, 2, 6, 2, 1, 5, 4, 3)),
        Case("1 token", call(g, 1, 6, 2, 1, 1, 3, 5)),
        # float32 rounds the large scores, and the gradients with them
        Case("large scores", call(g, 1, 6, 2, 4, 5, 3, 6, loud=900.0), gradients=False),
        Case("scores near 768 and -768", far, gradients=False),
    ]


def memory(answer):
    """True when no large tensor was made, else what was seen."""
    args = call(torch.Generator().manual_seed(7), **STEP)
    try:
        largest = made_by(answer, *args).largest
    except (Exception, SystemExit) as error:
        return Raised.by(error)
    return largest <= 2 * args[1].numel() or "no, one holds more"


def fused(query, key, value):
    """What is right, quickly."""
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


# 32 query heads a key head: 8 MiB of keys would become 256 MiB.
BUDGET = Budget(partial(call, b=1, h=64, g=2, n=1, m=16_384, d=64, e=16), fused, mib=100)
