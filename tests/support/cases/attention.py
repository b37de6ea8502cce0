"""Plain attention: causal, masked, with shared key heads, with scores that move."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse import spec
from support.cases import Variant, draw, mix, moved, qkv, some_pairs, variant
from support.cases.oracles import flex


def minus_infinity(visible: Tensor) -> Tensor:
    """The same mask in its float form, with other numbers than 0 where it lets pass."""
    return draw(visible.shape)[0].masked_fill(~visible, -torch.inf)


@variant("scaled_dot_product_attention")
def plain(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=stored,
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (
            run(q, k, v, scale=0.0),
            v.mean(-2, keepdim=True).expand(s.b, s.h, s.n, s.e),
        ),
        masked=lambda mask, q, k, v: stored(q, k, v, attn_mask=mask),
        dropped=partial(stored, dropout_p=0.5),
        torch=F.scaled_dot_product_attention,
        flex=flex,
    )


@variant("scaled_dot_product_attention, causal")
def causal(p, s):
    run = partial(p.steps.scaled_dot_product_attention, is_causal=True)
    visible = p.masks.dense(p.masks.causal, 1, 1, s.n, s.m)
    q, k, v = qkv(s)
    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=partial(p.steps.attention, attn_mask=visible),
        spec=partial(spec.scaled_dot_product_attention, is_causal=True),
        remake=mix,
        # The last of n queries may read n keys: there it is the plain function.
        limit=lambda: (
            run(q, k, v)[:, :, -1:],
            F.scaled_dot_product_attention(q[:, :, -1:], k[:, :, : s.n], v[:, :, : s.n]),
        ),
        masked=lambda mask, q, k, v: p.steps.attention(
            q, k, v, attn_mask=p.steps.add_causal(mask, s.n, s.m, q.device)
        ),
        torch=partial(F.scaled_dot_product_attention, is_causal=True),
        flex=partial(flex, mask_mod=p.masks.causal),
        is_causal=True,
    )


@variant("scaled_dot_product_attention, bool mask")
def bool_mask(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    visible = some_pairs(s.b, 1, s.n, s.m)
    return Variant(
        inputs=(q, k, v, visible),
        run=run,
        stored=lambda q, k, v, mask: stored(q, k, v, attn_mask=mask),
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (run(q, k, v, torch.ones_like(visible)), run(q, k, v)),
        masked=lambda mask, q, k, v, _: stored(q, k, v, attn_mask=mask),
        torch=F.scaled_dot_product_attention,
        flex=lambda q, k, v, mask: flex(q, k, v, mask_mod=lambda b, h, i, j: mask[b, 0, i, j]),
    )


@variant("scaled_dot_product_attention, float mask")
def float_mask(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    added = minus_infinity(some_pairs(s.b, s.h, s.n, s.m))
    return Variant(
        inputs=(q, k, v, added),
        run=run,
        stored=lambda q, k, v, mask: stored(q, k, v, attn_mask=mask),
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (run(q, k, v, torch.zeros_like(added)), run(q, k, v)),
        masked=lambda mask, q, k, v, _: stored(q, k, v, attn_mask=mask),
        torch=F.scaled_dot_product_attention,
        flex=lambda q, k, v, mask: flex(
            q, k, v, score_mod=lambda score, b, h, i, j: score + mask[b, h, i, j]
        ),
    )


@variant("scaled_dot_product_attention, causal and float mask")
def causal_float_mask(p, s):
    run = partial(p.steps.scaled_dot_product_attention, is_causal=True)
    visible = spec.causal(s.n, s.m)
    q, k, v = qkv(s)
    added = minus_infinity(some_pairs(s.n, s.m))
    return Variant(
        inputs=(q, k, v, added),
        run=run,
        stored=lambda q, k, v, mask: p.steps.attention(
            q, k, v, attn_mask=p.steps.add_causal(mask, s.n, s.m, q.device)
        ),
        spec=partial(spec.scaled_dot_product_attention, is_causal=True),
        remake=mix,
        limit=lambda: (run(q, k, v, torch.zeros_like(added)), run(q, k, v)),
        torch=lambda q, k, v, mask: F.scaled_dot_product_attention(
            q, k, v, mask.masked_fill(~visible, -torch.inf)
        ),
        is_causal=True,
    )


@variant("scaled_dot_product_attention, enable_gqa", b=5, h=6, g=2, n=7, m=3)
def grouped(p, s):
    run = partial(p.steps.scaled_dot_product_attention, enable_gqa=True)
    q, k, v = qkv(s)

    def repeated(x):  # head h reads key head h // (h / g)
        return torch.stack([x[:, h // (s.h // s.g)] for h in range(s.h)], dim=1)

    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=lambda q, k, v: p.steps.attention(q, repeated(k), repeated(v)),
        spec=lambda q, k, v: spec.scaled_dot_product_attention(q, repeated(k), repeated(v)),
        remake=mix,
        limit=lambda: (run(q[:, : s.g], k, v), F.scaled_dot_product_attention(q[:, : s.g], k, v)),
        torch=partial(F.scaled_dot_product_attention, enable_gqa=True),
        flex=partial(flex, enable_gqa=True),
    )


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
