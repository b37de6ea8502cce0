"""Calls of grouped-query attention, and every other way to share a key/value head."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse import spec
from attncourse.grading.inputs import alternating, sized_cases
from attncourse.grading.mistakes import Found
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe, triangle

CALLS = (  # what is special, b h g n m d e, how loud
    ("4 samples, 6 query heads, 2 KV heads, 5 queries, 7 keys, head_dim 10, values 9 wide",
     (4, 6, 2, 5, 7, 10, 9), 1),
    ("8 query heads, 2 KV heads, more queries than keys", (1, 8, 2, 5, 3, 4, 6), 1),
    ("as many KV heads as heads in a group", (3, 4, 2, 3, 5, 6, 6), 1),
    ("as many KV heads as query heads", (2, 3, 3, 4, 5, 6, 2), 1),
    ("1 KV head, 1 query", (2, 4, 1, 1, 5, 2, 6), 1),
    ("1 token", (1, 6, 2, 1, 1, 3, 5), 1),
    ("all sizes equal to 4", (4, 4, 4, 4, 4, 4, 4), 1),
    ("large scores", (1, 6, 2, 4, 5, 3, 6), 900),
    ("scores near 768 and -768", (1, 4, 2, 4, 5, 4, 3), alternating),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Every axis its own size; both ends of the dial; equal axes; one query; one token; large scores."""
    return sized_cases(seed, "b h g n m d e", "b h n d, b g m d, b g m e", CALLS)


def definition(query, key, value):
    """The loops of the course; the weights are not asked for."""
    return spec.grouped_query_attention(query, key, value)[0]


def given(query: Tensor, key: Tensor, value: Tensor) -> Given:
    """Keys and values repeated for their query heads; ``rest`` is the number of KV heads."""
    r = query.size(1) // key.size(1)
    return Given(query, *(x.repeat_interleave(r, 1) for x in (key, value)), rest=key.size(1))


def apart(x: Tensor, count: int) -> Tensor:
    """(b, heads, ...) -> (b, KV heads, heads of a group, ...)."""
    return x.unflatten(1, (count, -1))


def groups(heads: Tensor, x: Given, count: int) -> Tensor:
    """`apart`, in whichever order the heads read their keys."""
    if count in (1, x.key.size(1)) or torch.equal(x.key[:, 0], x.key[:, 1]):
        return apart(heads, count)
    return apart(heads, heads.size(1) // count).transpose(1, 2)


@dataclass(frozen=True)
class Steps:
    """The steps that a wrong way to share replaces; ``count`` finds the number of KV heads in a `Given`."""

    right: Recipe
    count: Callable[[Given], int]

    def instead(self, change: Callable) -> dict[str, Callable]:
        """``change(x, KV heads)``: other queries, keys or values."""

        def given(*arguments, **named):
            x = self.right.given(*arguments, **named)
            return x._replace(**change(x, self.count(x)))

        return {"given": given}

    def shared(self, change: Callable, *names: str) -> dict[str, Callable]:
        """``change(KV heads, heads of a group)``: another order of the heads of these tensors."""

        def few(x, g):
            heads = {name: apart(getattr(x, name), g) for name in names}
            return {name: change(head[:, :, 0], head.size(2)) for name, head in heads.items()}

        return self.instead(few)

    def weighed(self, change: Callable) -> dict[str, Callable]:
        """``change(scores of the groups)``: other weights."""

        def finish(s, x):
            return self.right.finish(change(apart(s, self.count(x))).reshape(s.shape), x)

        return {"normalize": lambda s: s, "finish": finish}

    def returned(self, change: Callable) -> dict[str, Callable]:
        """``change(output, KV heads)``: another output."""
        return {"answer": lambda o, w, s, x: self.right.answer(change(o, self.count(x)), w, s, x)}

    def left(self, change: Callable) -> dict[str, Callable]:
        """``change(output of the groups)``: what is left of them."""

        def answer(o, w, s, x):
            return self.right.answer(change(groups(o, x, self.count(x))), w, s, x)

        return {"answer": answer}


def sharing(right: Recipe, count: Callable[[Any], int] = lambda x: x.rest) -> Found:
    """Every other way to share; ``count`` finds the number of KV heads in a `Given`."""
    steps = Steps(right, count)
    instead, shared, weighed = steps.instead, steps.shared, steps.weighed
    returned, left = steps.returned, steps.left
    both, reads = ("key", "value"), "head h reads KV head h // (H / G)."
    yield from (
        ("strided", f"The groups are strided, h % G; query {reads}",
         shared(lambda x, r: x.repeat(1, r, 1, 1), *both)),
        ("keys strided", f"The keys are shared in strided order, the values in contiguous order; {reads}",
         shared(lambda x, r: x.repeat(1, r, 1, 1), "key")),
        ("values strided", f"The values are shared in strided order, the keys in contiguous order; {reads}",
         shared(lambda x, r: x.repeat(1, r, 1, 1), "value")),
        ("KV head 0", f"Every query head reads KV head 0; {reads}",
         shared(lambda x, r: x[:, :1].repeat(1, x.size(1) * r, 1, 1), *both)),
        ("divided by G", f"Head h reads KV head h // G here; {reads}",
         shared(lambda x, r: x[:, [h // x.size(1) for h in range(r * x.size(1))]], *both)),
        ("KV heads averaged", f"The KV heads of all groups are averaged; {reads}",
         shared(lambda x, r: x.mean(1, keepdim=True).repeat(1, x.size(1) * r, 1, 1), *both)),
        ("KV heads reversed", "The KV heads are read in reversed order: head 0 reads KV head 0.",
         shared(lambda x, r: x.flip(1).repeat_interleave(r, 1), *both)),
        ("queries of a group averaged", "The queries or scores of a group are averaged before the softmax; each "
         "query head has scores and an output of its own.",
         instead(lambda x, g: {"query": averaged(x.query, g)})),
        ("softmax over a group", "The softmax runs over the heads of a group; each query shares out its "
         "weight among the keys.", weighed(lambda s: s.softmax(2))),
        ("softmax over the groups", "The softmax runs over the groups; each query shares out its weight "
         "among the keys.", weighed(lambda s: s.softmax(1))),
        ("softmax over folded rows", "The softmax runs over all queries of a group; each query shares out its "
         "weight among the keys.", weighed(lambda s: s.flatten(2, 3).softmax(2))),
        ("scaled by KV heads", f"The scale uses the number of KV heads; it is sqrt({right.width}).",
         {"scale": lambda x: count(x) ** -0.5}),
        ("scaled by heads of a group", f"The scale uses the number of heads in a group; it is "
         f"sqrt({right.width}).", {"scale": lambda x: (x.query.size(1) / count(x)) ** -0.5}),
        ("queries strided", "The queries are grouped in strided order and the output in contiguous order: "
         "its heads are in another order.", instead(lambda x, g: {"query": dealt(x.query, g)})),
        ("output strided", "Keys are read in contiguous order, but the heads of the output stand in strided "
         "order.", returned(lambda o, g: apart(o, g).transpose(1, 2).flatten(1, 2))),
        ("unfolded swapped", "The heads of a group and the queries are swapped when the folded rows are "
         "unfolded.", returned(unfolded_wrongly)),
        ("one output a group, averaged", "The weights or outputs of a group are averaged, after the softmax; "
         "every query head keeps its own output.", left(lambda o: o.mean(2))),
        ("one output a group, added", "The weights or outputs of a group are added up, after the softmax; every "
         "query head keeps its own output.", left(lambda o: o.sum(2))),
    )  # fmt: skip


def averaged(heads: Tensor, count: int) -> Tensor:
    """Every head becomes the mean of its group."""
    return apart(heads, count).mean(2).repeat_interleave(heads.size(1) // count, 1)


def dealt(heads: Tensor, count: int) -> Tensor:
    """Head h joins group h % count."""
    return apart(heads, heads.size(1) // count).transpose(1, 2).flatten(1, 2)


def unfolded_wrongly(heads: Tensor, count: int) -> Tensor:
    """Folded as (heads of a group, queries), unfolded as (queries, heads of a group)."""
    rows = apart(heads, count).flatten(2, 3)
    return rows.unflatten(2, (heads.size(2), -1)).transpose(2, 3).flatten(1, 2)


def unasked(right: Recipe) -> Found:
    """Where no mask is asked for: what else people do, and other outputs."""

    def instead(which: Callable) -> dict[str, Callable]:
        """``which(output, given)``: another output."""
        return {"answer": lambda o, w, s, x: right.answer(which(o, x), w, s, x)}

    yield from (
        ("causal", "A causal mask hides later keys here; no mask is asked for.",
         {"mask": lambda s, x: s.masked_fill(~triangle(*s.shape[-2:], 0), -math.inf)}),
        ("output as wide as the query", "The output is reshaped to the shape of the query; it is as wide as the "
         "values.", instead(lambda o, x: o.reshape(x.query.shape))),
        ("groups apart", "The groups of the output are still apart; return (batch, H, n, e).",
         instead(lambda o, x: groups(o, x, x.rest))),
        ("folded", "The heads of a group stay folded into rows; return (batch, H, n, e).",
         instead(lambda o, x: apart(o, x.rest).flatten(2, 3))),
        ("first head of a group", "Only the first query head of each group asks; all H heads have an output.",
         instead(lambda o, x: apart(o, x.rest)[:, :, 0])),
        ("first heads", "Only as many query heads ask as there are KV heads; all H heads have an output.",
         {"given": lambda q, k, v: right.given(q[:, :k.size(1)], k, v)}),
    )  # fmt: skip
