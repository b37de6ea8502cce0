"""Exercise scaled_dot_product_attention: the equation, as code."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """Every axis its own size, saturated scores, a single key."""
    g = torch.Generator().manual_seed(seed)

    def qkv(b, h, n, m, d, e, loud=1.0):
        shapes = (b, h, n, d), (b, h, m, d), (b, h, m, e)
        query, key, value = (torch.randn(s, generator=g) for s in shapes)
        return loud * query, key, value

    def below(qkv):
        query, key, value = qkv
        return query + 20, key - 20, value

    return [
        Case(
            "2 samples, 3 heads, 5 queries, 7 keys, head_dim 11, values 13 wide",
            qkv(2, 3, 5, 7, 11, 13),
        ),
        # float32 rounds large scores, and some right styles lose digits of the gradients
        Case("large scores", qkv(1, 2, 3, 5, 4, 6, loud=144.0), gradients=False),
        Case("one key", qkv(2, 1, 3, 1, 4, 5)),
        Case("one query, head_dim 1, values 1 wide", qkv(2, 2, 1, 3, 1, 1)),
        Case("as many queries as keys", qkv(1, 2, 4, 4, 9, 4)),
        Case("scores far below 0", below(qkv(1, 2, 3, 5, 4, 6)), gradients=False),
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def matmul_and_softmax(query, key, value):
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights


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
    batch, heads = query.shape[:2]
    return [torch.stack(x).unflatten(0, (batch, heads)) for x in (outputs, maps)]


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


MISTAKES = Mistakes()


def attend(query, key, value, scale=None, axis=-1):
    scale = query.size(-1) ** -0.5 if scale is None else scale
    weights = torch.softmax(query @ key.mT * scale, dim=axis)
    return weights @ value, weights


@MISTAKES.add("The scores are not divided by sqrt(head_dim).")
def unscaled(query, key, value):
    return attend(query, key, value, scale=1.0)


@MISTAKES.add("The scores are divided by head_dim instead of its square root.")
def divided_by_d(query, key, value):
    return attend(query, key, value, scale=1 / query.size(-1))


@MISTAKES.add("The scores are multiplied by sqrt(head_dim) instead of divided.")
def multiplied(query, key, value):
    return attend(query, key, value, scale=query.size(-1) ** 0.5)


@MISTAKES.add("The scale uses the width of the values, not of the keys.")
def scaled_by_value_width(query, key, value):
    return attend(query, key, value, scale=value.size(-1) ** -0.5)


@MISTAKES.add("The scale uses the number of keys, not head_dim.")
def scaled_by_length(query, key, value):
    return attend(query, key, value, scale=key.size(-2) ** -0.5)


@MISTAKES.add("The scale uses the number of queries, not head_dim.")
def scaled_by_queries(query, key, value):
    return attend(query, key, value, scale=query.size(-2) ** -0.5)


@MISTAKES.add("The scale uses heads * head_dim, the width before the split.")
def scaled_by_embed_dim(query, key, value):
    return attend(query, key, value, scale=(query.size(1) * query.size(-1)) ** -0.5)


@MISTAKES.add(
    "The softmax runs over the queries (dim=-2); each query must share out its weight among the keys."
)
def softmax_over_queries(query, key, value):
    return attend(query, key, value, axis=-2)


@MISTAKES.add("The softmax runs over the heads (dim=1) instead of the keys.")
def softmax_over_heads(query, key, value):
    return attend(query, key, value, axis=1)


@MISTAKES.add("The scores are used as weights; the softmax is missing.")
def no_softmax(query, key, value):
    scores = query @ key.mT / query.size(-1) ** 0.5
    return scores @ value, scores


@MISTAKES.add("The scores are divided by their sum; the exponential of the softmax is missing.")
def no_exponential(query, key, value):
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add(
    "The exponential overflows on large scores; subtract the largest score of the row first."
)
def overflowing(query, key, value):
    weights = torch.exp(query @ key.mT / query.size(-1) ** 0.5)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add(
    "The scale is applied to the weights, after the softmax, so the rows no longer sum to 1."
)
def scale_after_softmax(query, key, value):
    weights = torch.softmax(query @ key.mT, dim=-1) / query.size(-1) ** 0.5
    return weights @ value, weights


@MISTAKES.add("Only the output is returned; return (output, weights).")
def output_only(query, key, value):
    return attend(query, key, value)[0]


@MISTAKES.add("The order is (weights, output); return (output, weights).")
def swapped(query, key, value):
    return attend(query, key, value)[::-1]


@MISTAKES.add("The scores are returned instead of the weights.")
def scores_returned(query, key, value):
    return attend(query, key, value)[0], query @ key.mT / query.size(-1) ** 0.5


@MISTAKES.add("No gradient flows through the weights; they are detached or made inside no_grad.")
def detached(query, key, value):
    weights = attend(query, key, value)[1].detach()
    return weights @ value, weights


@MISTAKES.add("The query is scaled in place, which changes the caller's tensor.")
def in_place(query, key, value):
    query /= query.size(-1) ** 0.5
    return attend(query, key, value, scale=1.0)


EXERCISE = Exercise(
    name="scaled_dot_product_attention",
    answer="scaled_dot_product_attention",
    title="Scaled dot-product attention",
    kind="Implement",
    points=3,
    difficulty=2,
    minutes=15,
    needs="sections 'By hand' and 'The function' of chapter 1",
    judge=Calls(spec.scaled_dot_product_attention, cases),
    hints=(
        "Four lines: scores, scale, softmax, mix. Write the shape of each as a comment first.",
        "Scores have shape (batch, heads, queries, keys): query @ key.transpose(-2, -1).",
        "weights = torch.softmax(scores / math.sqrt(query.size(-1)), dim=-1); output = weights @ value.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
