"""Exercise what_shrinks: cache, parameters, FLOPs and scores of 8 KV heads, beside those of 1."""

import torch
from torch import nn

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

EMBED_DIM, NUM_HEADS, TOKENS, HEAD_DIM = 512, 8, 1024, 64


def sizes(num_kv_heads: int) -> tuple[int, int, int, int]:
    """Cached numbers, parameters without biases, FLOPs of scores and mix, and scores; counted."""
    widths = EMBED_DIM, num_kv_heads * HEAD_DIM, num_kv_heads * HEAD_DIM, EMBED_DIM
    layers = [nn.Linear(EMBED_DIM, width, bias=False, device="meta") for width in widths]
    cache = 2 * torch.empty(num_kv_heads, TOKENS, HEAD_DIM, device="meta").numel()
    scores = sum(TOKENS * TOKENS for _ in range(NUM_HEADS))  # every query head has its own
    flops = 2 * scores * (HEAD_DIM + HEAD_DIM)
    return cache, sum(layer.weight.numel() for layer in layers), flops, scores


def factors() -> list[float]:
    """Multi-head divided by multi-query."""
    return [a / b for a, b in zip(sizes(NUM_HEADS), sizes(1), strict=True)]


WHY = (
    "The cache holds keys and values, nothing else, of 1 head instead of 8.",
    "Query and output projection keep their width, key and value projection become 8 times "
    "thinner.",
    "Each of the 8 query heads still scores every key and mixes every value.",
    "Each of the 8 query heads still has a table of its own.",
)
RIGHT = factors()
KV, ALL = 1 / NUM_HEADS, 4  # a projection of one head beside a whole one, and all four of a layer
OTHERS = (
    {"sharing the keys alone": 2 / (1 + KV), "keeping one tensor for keys and values": 16,
     "making the one head as wide as the layer": 1},
    {"leaving out the projection of queries or outputs": 3 / (1 + 2 * KV),
     "counting key and value projection alone": 8, "sharing the keys alone": ALL / (3 + KV),
     "keeping one tensor for keys and values": ALL / (2 + KV),
     "making the one head as wide as the layer": 1, "keeping one query head": ALL / (1 + 3 * KV)},
    {"counting the projections, too": 2 * ALL / (ALL + 2 + 2 * KV), "writing 0 for what stays": 0,
     "making scores once for all heads": 2 / (1 + KV), "keeping one query head": 8},
    {"keeping one query head": 8, "writing 0 for what stays": 0},
)  # fmt: skip
MADE = [
    Made(others={**others, "giving in percent what is saved": 100 * (1 - 1 / factor),
                 "giving the share that is saved": 1 - 1 / factor})
    for others, factor in zip(OTHERS, RIGHT, strict=True)
]  # fmt: skip


EXERCISE = Exercise(
    name="what_shrinks",
    answer="factors",
    judge=Number(factors, decimals=2),
    right=RIGHT,
    results=("cache", "parameters", "FLOPs", "scores"),
    explain=(predicted(lambda place, number: WHY[place], *MADE),),
    asks_for="number",
)
