"""Exercise what_shrinks: cache, parameters, FLOPs and scores of 8 heads, against 1 key head."""

import torch
from torch import nn

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

EMBED_DIM, NUM_HEADS, TOKENS = 512, 8, 1024
HEAD_DIM = EMBED_DIM // NUM_HEADS


def sizes(num_kv_heads: int) -> tuple[int, int, int, int]:
    """Cached numbers, parameters without biases, FLOPs of scores and mix, and scores; counted."""
    kv_width = num_kv_heads * HEAD_DIM
    widths = EMBED_DIM, kv_width, kv_width, EMBED_DIM
    layers = [nn.Linear(EMBED_DIM, width, bias=False, device="meta") for width in widths]
    cache = 2 * torch.empty(num_kv_heads, TOKENS, HEAD_DIM, device="meta").numel()
    scores = sum(TOKENS * TOKENS for _ in range(NUM_HEADS))  # every query head has its own
    flops = 2 * scores * (HEAD_DIM + HEAD_DIM)
    return cache, sum(layer.weight.numel() for layer in layers), flops, scores


def factors() -> list[float]:
    """Multi-head divided by multi-query."""
    return [a / b for a, b in zip(sizes(NUM_HEADS), sizes(1), strict=True)]


ACCEPTED = Accepted(
    a_tuple=(8, 16 / 9, 1, 1),
    a_rounded_list=[8.0, 1.78, 1.0, 1.0],
    a_tensor=torch.tensor([8, 4 / (2 * (1 + 1 / 8)), 1, 1]),
    counted=tuple(factors()),
)

MISTAKES = Mistakes()
for says, numbers in (
    ("Not everything shrinks by the number of heads: only the cache does.", (8, 8, 8, 8)),
    ("The query and the output projection keep their width, so the parameters shrink by less than 2.",
     (8, 8, 1, 1)),
    ("The parameters become 2 D^2 (1 + 1/8), not the 3 D^2 of document 004.", (8, 4 / 3, 1, 1)),
    ("The parameters become 2 D^2 (1 + 1/8); the two thin projections do not vanish.", (8, 2, 1, 1)),
    ("Only one thin projection is counted; key and value have one each.",
     (8, 4 / (2 + 1 / 8), 1, 1)),
    ("The parameters shrink a little: two of the four projections become 8 times thinner.",
     (8, 1, 1, 1)),
    ("Each of the 8 query heads still scores every key: the FLOPs of the attention stay.",
     (8, 16 / 9, 8, 1)),
    ("Each of the 8 query heads still has its own table of scores.", (8, 16 / 9, 1, 8)),
    ("Each of the 8 query heads still scores every key and keeps its own table: FLOPs and scores stay.",
     (8, 16 / 9, 8, 8)),
    ("Keys and values both shrink by 8; together they shrink by 8 as well, not by 16 or 64.",
     (16, 16 / 9, 1, 1)),
    ("Keys and values both shrink by 8; their factors do not multiply.", (64, 16 / 9, 1, 1)),
    ("This is multi-query divided by multi-head; the question is how many times smaller.",
     (1 / 8, 9 / 16, 1, 1)),
    ("The parameters are turned around: divide multi-head by multi-query.", (8, 9 / 16, 1, 1)),
    ("The cache holds one key head instead of 8.", (1, 16 / 9, 1, 1)),
):  # fmt: skip
    MISTAKES.add(says)(numbers)


EXERCISE = Exercise(
    name="what_shrinks",
    answer="factors",
    title="What shrinks?",
    kind="Predict",
    points=1,
    difficulty=2,
    minutes=5,
    needs="section 'What it costs' of chapter 5",
    judge=Number(factors, rtol=0.01),
    hints=(
        "What has a head axis that belongs to keys and values? What has one that belongs to queries?",
        "Cache and two of the four projections belong to keys and values. Every query head still "
        "multiplies with every key, and has a table of scores of its own.",
        "(8, 4 / (2 * (1 + 1 / 8)), 1, 1).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
