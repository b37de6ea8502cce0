"""Exercise multi_query_attention: many query heads, one key/value head."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases
from attncourse.grading.mistakes import (
    dots,
    gradients,
    heads,
    in_place,
    masks,
    mistakes_of,
    mixes,
    outputs,
    rules,
    scales,
    softmaxes,
    weights,
)
from attncourse.grading.noticing import Noticing, weights_of
from attncourse.grading.recipe import Given, Recipe, triangle
from attncourse.grading.slips import alone, clamped, slips


def definition(query, key, value, is_causal):
    """The loops of the course, with one key/value head."""
    return spec.grouped_query_attention(query, key[:, None], value[:, None], is_causal=is_causal)


CALLS = (  # what is special, b h n m d e, how loud, is_causal
    ("2 samples, 3 heads, 4 queries, 5 keys, head_dim 6, values 7 wide, causal", (2, 3, 4, 5, 6, 7), 1, True),
    ("the same, not causal", (2, 3, 4, 5, 6, 7), 1, False),
    ("causal, more queries than keys", (2, 2, 5, 3, 4, 6), 1, True),
    ("as many samples as heads", (3, 3, 4, 5, 2, 4), 1, False),
    ("as many queries as keys, causal", (1, 4, 5, 5, 3, 3), 1, True),
    ("1 head", (2, 1, 3, 4, 5, 5), 1, False),
    ("1 query, causal", (2, 3, 1, 4, 2, 5), 1, True),
    ("1 token", (1, 2, 1, 1, 3, 2), 1, True),
    ("large scores", (1, 2, 4, 5, 3, 6), 300, False),
    ("large scores, causal", (1, 2, 4, 4, 3, 6), 300, True),
    ("scores far below and above zero, causal", (1, 2, 4, 5, 16, 6), far_from_zero, True),
    ("scores near 768 and -768", (1, 2, 4, 5, 4, 3), alternating, False),
)  # fmt: skip
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b m d, b m e", calls=CALLS)


def given(query, key, value, is_causal):
    return Given(query, key[:, None], value[:, None], 0 if is_causal else None)


RIGHT = Recipe(given)
ACCEPTED = Accepted(broadcast_over_heads=RIGHT)


@ACCEPTED.add
def heads_folded_into_queries(query, key, value, is_causal, repeated=True):
    h, n = query.shape[1:3]
    rows = triangle(n if repeated else h * n, key.size(1), 0).repeat(h if repeated else 1, 1)
    scores = query.flatten(1, 2) @ key.mT / query.size(-1) ** 0.5
    weights = scores.masked_fill(~rows & is_causal, -torch.inf).softmax(-1)
    return (weights @ value).unflatten(1, (h, n)), weights.unflatten(1, (h, n))


@ACCEPTED.add
def einsum(query, key, value, is_causal):
    scores = torch.einsum("bhnd,bmd->bhnm", query, key) / key.shape[-1] ** 0.5
    if is_causal:
        i, j = torch.arange(query.shape[2])[:, None], torch.arange(key.shape[1])
        scores = torch.where(j <= i, scores, -1e9)
    weights = scores.softmax(dim=3)
    return torch.einsum("bhnm,bme->bhne", weights, value), weights


@ACCEPTED.add
def one_head_after_the_other(query, key, value, is_causal):
    heads = [RIGHT(query[:, h : h + 1], key, value, is_causal) for h in range(query.size(1))]
    return tuple(torch.cat(parts, dim=1) for parts in zip(*heads, strict=True))


@ACCEPTED.add
def repeated_and_of_torch(query, key, value, is_causal):
    k, v = (x.unsqueeze(1).repeat(1, query.size(1), 1, 1) for x in (key, value))
    eye = torch.eye(k.size(2)).expand(*k.shape[:2], -1, -1)
    return tuple(F.scaled_dot_product_attention(query, k, x, is_causal=is_causal) for x in (v, eye))


@ACCEPTED.add
def in_double_and_a_float_mask(query, key, value, is_causal):
    q, k, v = query.double(), key.double().unsqueeze(1), value.double().unsqueeze(1)
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-2, -1)
    if is_causal:
        scores = scores + torch.full(scores.shape[2:], -torch.inf, dtype=q.dtype).triu(1)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    return [weights @ v, weights]


MISTAKES = Mistakes([
    *mistakes_of(RIGHT, scales, softmaxes, masks, rules, without=("top left", "mask unused")),
    *alone(mistakes_of(RIGHT, dots, mixes, outputs, gradients, heads, weights, in_place)),
    Mistake("The causal mask counts the folded rows: the second head starts at row n, so it sees n keys "
            "more. Repeat the mask of one head.", partial(heads_folded_into_queries, repeated=False)),
    RIGHT.but("The causal mask is applied whether is_causal is True or not.",
              given=lambda q, k, v, _: given(q, k, v, True)),
    RIGHT.but("The head axis is missing in key and value, so the batch is taken for the heads: write "
              "key[:, None].", given=lambda q, k, v, c: Given(q, k, v, 0 if c else None)),
    RIGHT.but("repeat(heads, 1, 1) lays the samples side by side, so heads read other samples.",
              given=lambda q, k, v, c: Given(q, *(x.repeat(q.size(1), 1, 1).unflatten(0, q.shape[:2]) for x in (k, v)),
                                             0 if c else None)),
    RIGHT.but("The heads stay folded: return (batch, heads, n, e) and (batch, heads, n, m).",
              answer=lambda o, w, s, x: (o.flatten(1, 2), w.flatten(1, 2))),
    RIGHT.but("The heads stand behind the positions; return (batch, heads, n, ...).",
              answer=lambda o, w, s, x: (o.transpose(1, 2), w.transpose(1, 2))),
    RIGHT.but("The folded rows are unfolded in another order: they were flattened as (heads, queries), so "
              "unflatten them so.", answer=lambda o, w, s, x: tuple(
                  made.reshape(len(o), o.size(2), o.size(1), -1).transpose(1, 2) for made in (o, w))),
])  # fmt: skip

MISTAKES += alone(mistakes_of(RIGHT, slips, clamped, without=("values of head 0", "keys added")))

EXERCISE = Exercise(
    name="multi_query_attention",
    judge=Noticing(definition, CASES, look=weights_of("outputs", "d")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
