"""Plain attention: causal, masked, with shared key heads, with scores that move."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse import spec
from support.cases import Variant, draw, moved, qkv, some_pairs, variant
from support.cases.oracles import flex


def minus_infinity(visible: Tensor) -> Tensor:
    """The same mask in its float form, with other numbers than 0 where it lets pass."""
    return draw(visible.shape)[0].masked_fill(~visible, -torch.inf)


# Limits, given a function, query, key and value.


def mean(s):
    """A scale of 0 weighs all keys alike."""
    alike = lambda v: v.mean(-2, keepdim=True).expand(s.b, s.h, s.n, s.e)  # noqa: E731
    return lambda run, q, k, v: (run(q, k, v, scale=0.0), alike(v))


def nothing_hidden(mask):
    return lambda run, q, k, v: (run(q, k, v, mask), run(q, k, v))


def as_many(s):
    """As many query heads as key heads share nothing."""
    plain = F.scaled_dot_product_attention
    return lambda run, q, k, v: (run(q[:, : s.g], k, v), plain(q[:, : s.g], k, v))


def flex_masked(q, k, v, mask):
    """With a mask (b, 1, n, m)."""
    return flex(q, k, v, mask_mod=lambda b, h, i, j: mask[b, 0, i, j])


def function(p, s, limit, *masks, fixed=None, **own):
    """A variant of `scaled_dot_product_attention`.

    Args:
        limit: given the function, query, key and value, returns two tensors that must be equal.
        masks: one more input, or none.
        fixed: options of every call, also of torch and of the loops.
        own: fields of the variant that are otherwise.
    """
    q, k, v = qkv(s)
    fixed = fixed or {}
    run = partial(p.steps.scaled_dot_product_attention, **fixed)
    stored = lambda q, k, v, mask=None: p.steps.attention(q, k, v, attn_mask=mask)  # noqa: E731
    usual = {
        "stored": stored,
        "spec": partial(spec.scaled_dot_product_attention, **fixed),
        "torch": partial(F.scaled_dot_product_attention, **fixed),
        "masked": lambda mask, q, k, v, *_: stored(q, k, v, mask),
    }
    return Variant((q, k, v, *masks), run, limit=lambda: limit(run, q, k, v), **usual | own)


@variant("scaled_dot_product_attention")
def plain(p, s):
    return function(p, s, mean(s), dropped=partial(p.steps.attention, dropout_p=0.5), flex=flex)


def causal_too(p, s):
    """The five steps with the causal mask on top of a mask."""
    both = lambda mask, q: p.steps.add_causal(mask, s.n, s.m, q.device)  # noqa: E731
    return lambda mask, *qkv: p.steps.attention(*qkv, attn_mask=both(mask, qkv[0]))


@variant("scaled_dot_product_attention, causal")
def causal(p, s):
    def last_of_n_reads_n(run, q, k, v):
        plain = F.scaled_dot_product_attention(q[:, :, -1:], k[:, :, : s.n], v[:, :, : s.n])
        return run(q, k, v)[:, :, -1:], plain

    return function(
        p, s, last_of_n_reads_n, fixed={"is_causal": True}, is_causal=True,
        stored=partial(p.steps.attention, attn_mask=p.masks.dense(p.masks.causal, 1, 1, s.n, s.m)),
        masked=causal_too(p, s),
        flex=partial(flex, mask_mod=p.masks.causal),
    )  # fmt: skip


@variant("scaled_dot_product_attention, bool mask")
def bool_mask(p, s):
    visible = some_pairs(s.b, 1, s.n, s.m)
    return function(p, s, nothing_hidden(torch.ones_like(visible)), visible, flex=flex_masked)


@variant("scaled_dot_product_attention, float mask")
def float_mask(p, s):
    added = minus_infinity(some_pairs(s.b, s.h, s.n, s.m))

    def by_flex(q, k, v, mask):
        return flex(q, k, v, score_mod=lambda score, b, h, i, j: score + mask[b, h, i, j])

    return function(p, s, nothing_hidden(torch.zeros_like(added)), added, flex=by_flex)


@variant("scaled_dot_product_attention, causal and float mask")
def causal_float_mask(p, s):
    visible = spec.causal(s.n, s.m)
    added = minus_infinity(some_pairs(s.n, s.m))

    def by_torch(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask.masked_fill(~visible, -torch.inf))

    return function(
        p, s, nothing_hidden(torch.zeros_like(added)), added, fixed={"is_causal": True},
        stored=lambda q, k, v, mask: causal_too(p, s)(mask, q, k, v),
        torch=by_torch, masked=None, is_causal=True,
    )  # fmt: skip


@variant("scaled_dot_product_attention, enable_gqa", b=5, h=6, g=2, n=7, m=3)
def grouped(p, s):
    def repeated(x):  # head h reads key head h // (h / g)
        return torch.stack([x[:, h // (s.h // s.g)] for h in range(s.h)], dim=1)

    return function(
        p, s, as_many(s), fixed={"enable_gqa": True}, masked=None,
        stored=lambda q, k, v: p.steps.attention(q, repeated(k), repeated(v)),
        spec=lambda q, k, v: spec.scaled_dot_product_attention(q, repeated(k), repeated(v)),
        flex=partial(flex, enable_gqa=True),
    )  # fmt: skip


@variant("attention, softcap")
def softcap(p, s):
    def limit(q, k, v, attend):
        uncapped = p.steps.attention(q, k, v, score_mod=p.scores.softcap(1e9))
        return uncapped[0], F.scaled_dot_product_attention(q, k, v)

    return moved(p, s, partial(p.scores.softcap, 2.0), partial(spec.softcap, 2.0), limit)


@variant("attention, alibi", b=3, h=2, g=2)
def alibi(p, s):
    def limit(q, k, v, attend):  # a bias that is added, one slope a head
        distance = (torch.arange(s.n)[:, None] - torch.arange(s.m)).abs().double()
        bias = torch.stack([-distance * 2.0 ** (-8 * (h + 1) / s.h) for h in range(s.h)])
        return attend(q, k, v)[0], F.scaled_dot_product_attention(q, k, v, bias)

    return moved(p, s, partial(p.scores.alibi, s.h), partial(spec.alibi, s.h), limit)


@variant("attention, relative_bias")
def relative_bias(p, s):
    def limit(q, k, v, attend):  # softmax ignores a constant
        return attend(q, k, v, torch.ones(s.h, 5))[0], F.scaled_dot_product_attention(q, k, v)

    # Distances reach further than 2, so that the clipping is seen on both sides.
    return moved(p, s, p.scores.relative_bias, spec.relative_bias, limit, draw((s.h, 5)))
