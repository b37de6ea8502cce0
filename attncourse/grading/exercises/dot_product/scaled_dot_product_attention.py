"""Exercise scaled_dot_product_attention: the equation, as code."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.inputs import alternating, far_below_zero, sized_cases
from attncourse.grading.mistakes import ATTENTION, in_place, mistakes_of, weights
from attncourse.grading.noticing import Noticing, weights_of
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone, clamped, slips

CALLS = (  # what is special, b h n m d e, how loud
    ("2 samples, 3 heads, 5 queries, 7 keys, head_dim 11, values 13 wide", (2, 3, 5, 7, 11, 13), 1),
    ("as many queries as keys", (1, 2, 4, 4, 9, 4), 1),
    ("one key", (2, 1, 3, 1, 4, 5), 1),
    ("one query, head_dim 1, values 1 wide", (2, 2, 1, 3, 1, 1), 1),
    ("large scores", (1, 2, 3, 5, 4, 6), 144),
    ("scores near 768 and -768", (1, 2, 4, 5, 4, 3), alternating),
    (
        "scores far below and far above zero",
        (1, 2, 3, 5, 16, 6),
        lambda q, k: far_below_zero(q, k) or q[..., ::2, :].neg_(),
    ),
)


def cases(seed: int) -> list[Case]:
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", CALLS)


RIGHT = Recipe(Given)
ACCEPTED = Accepted(matmul_and_softmax=RIGHT)


@ACCEPTED.add
def einsum(query, key, value):
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / math.sqrt(key.shape[-1])
    weights = scores.softmax(-1)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@ACCEPTED.add
def loops_over_heads(query, key, value):
    outputs, maps = [], []
    for q, k, v in zip(query, key, value, strict=True):
        for qh, kh, vh in zip(q, k, v, strict=True):
            maps.append(F.softmax(qh @ kh.T * qh.shape[-1] ** -0.5, dim=1))
            outputs.append(maps[-1] @ vh)
    return [torch.stack(x).unflatten(0, query.shape[:2]) for x in (outputs, maps)]


@ACCEPTED.add
def double_precision_by_hand(query, key, value):
    scores = (query.double() / math.sqrt(query.size(-1))) @ key.double().mT
    scores = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ value.double(), weights


@ACCEPTED.add
def fused_output_and_own_weights(query, key, value):
    weights = torch.softmax(torch.matmul(query, key.mT).div(query.shape[-1] ** 0.5), -1)
    return F.scaled_dot_product_attention(query, key, value), weights


MISTAKES = Mistakes(mistakes_of(RIGHT, *ATTENTION, weights, in_place))
MISTAKES += [
    RIGHT.but("The scores are rounded to float16, which ends at 65504 and keeps 3 digits; stay in float32.",
              normalize=lambda s: s.half().float().softmax(-1)),
    RIGHT.but("A causal mask hides keys; here every query reads every key.",
              mask=lambda s, x: s.masked_fill(torch.ones_like(s).triu(1) > 0, -math.inf)),
    RIGHT.but("The output is averaged over the queries; return one row for each.",
              answer=lambda o, w, s, x: (o.mean(-2, keepdim=True), w)),
]  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, slips, clamped))

EXERCISE = Exercise(
    name="scaled_dot_product_attention",
    judge=Noticing(spec.scaled_dot_product_attention, cases, look=weights_of("outputs")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
