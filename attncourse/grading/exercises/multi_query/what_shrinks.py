"""Exercise what_shrinks: cache, parameters, FLOPs and scores of 8 KV heads, divided by those of 1."""

from dataclasses import dataclass

import torch
from torch import nn

from attncourse.grading.compare import Close, difference
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

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


@dataclass(frozen=True)
class Factors(Number):
    """Four numbers; each has a sentence that is true whenever it is wrong."""

    def notice(self, expected, seen, seed: int) -> str:
        found, right = seen["the number"], expected["the number"].value
        if not isinstance(found, Close):
            return ""
        if found.value.shape != right.shape:
            return "Four numbers are asked: of the cache, the parameters, the FLOPs and the scores."
        if not difference(
            Close(right.sort().values, 0.0, 0.005), Close(found.value.sort().values, 0.0)
        ):
            return "The four numbers are right, but stand in another order."
        wrong = (found.value - right).abs() > 0.005
        return " ".join(says for bad, says in zip(wrong, WHY, strict=True) if bad)


WHY = (
    "Cache: it holds keys and values, nothing else, of 1 head instead of 8.",
    "Parameters: query and output projection keep their width, key and value projection become 8 times thinner.",
    "FLOPs: each of the 8 query heads still scores every key and mixes every value.",
    "Scores: each of the 8 query heads still has a table of its own.",
)

ACCEPTED = Accepted(
    a_tuple=(8, 16 / 9, 1, 1), a_rounded_list=[8.0, 1.78, 1.0, 1.0],
    a_tensor=torch.tensor([8, 4 / (2 * (1 + 1 / 8)), 1, 1]), counted=tuple(factors()),
)  # fmt: skip

MISTAKES = Mistakes(
    Mistake(says, numbers) for says, numbers in (
        ("Not everything shrinks by the number of heads: only the cache does.", (8, 8, 8, 8)),
        ("Query and output projection keep their width, so the parameters shrink by less than 2.", (8, 8, 1, 1)),
        ("The parameters become 2 D^2 (1 + 1/8), not 3 D^2.", (8, 4 / 3, 1, 1)),
        ("The parameters become 2 D^2 (1 + 1/8); the two thin projections do not vanish.", (8, 2, 1, 1)),
        ("Only one thin projection is counted; key and value have one each.", (8, 4 / (2 + 1 / 8), 1, 1)),
        ("Only one of key and value is shared; both are.", (8, 4 / (3 + 1 / 8), 1, 1)),
        ("The parameters shrink, too: two of the four projections become 8 times thinner.", (8, 1, 1, 1)),
        ("One of the two wide projections has been left out of the parameters.", (8, 3 / (1 + 2 / 8), 1, 1)),
        ("Of the factor of the parameters two decimals are asked.", (8, 1.8, 1, 1)),
        ("The third decimal of the factor of the parameters is 7, so that it is rounded up.", (8, 1.77, 1, 1)),
        ("Each of the 8 query heads still scores every key: the FLOPs of the attention stay.", (8, 16 / 9, 8, 1)),
        ("Each of the 8 query heads still has its own table of scores.", (8, 16 / 9, 1, 8)),
        ("Each of the 8 query heads still scores every key and keeps its own table: FLOPs and scores stay.",
         (8, 16 / 9, 8, 8)),
        ("Keys and values both shrink by 8; together they shrink by 8 as well, not by 16.", (16, 16 / 9, 1, 1)),
        ("Keys and values both shrink by 8; their factors do not multiply.", (64, 16 / 9, 1, 1)),
        ("The cache holds keys and values of 1 head instead of 8.", (1, 16 / 9, 1, 1)),
        ("Keys and values of the cache both shrink by 8, not only one of them.", (16 / 9, 16 / 9, 1, 1)),
        ("This is multi-query divided by multi-head; the other way round is asked.", (1 / 8, 9 / 16, 1, 1)),
        ("The parameters are turned around: divide multi-head by multi-query.", (8, 9 / 16, 1, 1)),
        ("A number that stays has factor 1, not 0.", (8, 16 / 9, 0, 0)),
        ("This is the part that is saved; the question is how many times smaller.", (7 / 8, 7 / 16, 0, 0)),
    )
)  # fmt: skip

EXERCISE = Exercise(
    name="what_shrinks",
    answer="factors",
    judge=Factors(factors, decimals=2),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
