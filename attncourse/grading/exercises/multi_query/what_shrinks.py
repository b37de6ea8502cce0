"""Exercise what_shrinks: cache, parameters, FLOPs and scores of 8 KV heads, beside those of 1."""

import torch
from torch import nn

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Asked, Exercise, Number

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
    "Cache: it holds keys and values, nothing else, of 1 head instead of 8.",
    "Parameters: query and output projection keep their width, key and value projection become 8 "
    "times thinner.",
    "FLOPs: each of the 8 query heads still scores every key and mixes every value.",
    "Scores: each of the 8 query heads still has a table of its own.",
)
ROUNDED = "Parameters: two decimals are asked; the third is 7, so that the second is rounded up."


def wrong_factors(asked: Asked) -> str:
    """What is true of each quantity whose factor is wrong."""
    found, right = asked.seen.get("the number"), torch.tensor(factors(), dtype=torch.float64)
    if not isinstance(found, Close) or found.value.shape != right.shape:
        return "Four numbers are asked: of the cache, the parameters, the FLOPs and the scores."
    apart = (found.value - right).abs() > 0.005
    if apart.any() and (found.value.sort().values - right.sort().values).abs().max() <= 0.005:
        return "The four numbers are right, but stand in another order."
    if (found.value * right - 1).abs().max() < 0.02:
        return "This is multi-query divided by multi-head; the other way round is asked."
    rounded = apart[1] and (found.value[1] - right[1]).abs() < 0.05
    says = (WHY[0], ROUNDED if rounded else WHY[1], *WHY[2:])
    return " ".join(x for wrong, x in zip(apart, says, strict=True) if wrong)


EXERCISE = Exercise(
    name="what_shrinks",
    answer="factors",
    judge=Number(factors, decimals=2),
    right=factors(),
    explain=(wrong_factors,),
    asks_for="number",
)
