"""FlashAttention in plain PyTorch among the variants. Its weights never exist, so none can be stored."""

import sys
from functools import partial
from unittest import mock

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, mix, module, qkv, some_pairs, variant
from support.cases.oracles import flex


def flash(p):
    """`flash_attention` of a package; of a private copy, together with that copy's `tiled`."""
    if not hasattr(p, "tiled"):
        return partial(module(p, "flash").flash_attention, backend="tiled")

    def attend(*inputs, **options):
        with mock.patch.dict(sys.modules, {"attncourse.variants.flash.tiled": p.tiled}):
            return p.flash.flash_attention(*inputs, backend="tiled", **options)

    return attend


def flashed(p, s, *more, visible=None, fixed, theirs, limit, **oracles):
    """A variant of `flash_attention`.

    Args:
        more: inputs behind query, key and value.
        visible: the pairs that the loops may use, if they are not given by ``more``.
        fixed: options of every call.
        theirs: torch's function with the same meaning.
    """
    q, k, v = qkv(s)
    run = partial(flash(p), **fixed)

    def by_loops(query, key, value, mask=visible):
        k, v = (x.repeat_interleave(s.h // s.g, dim=1) for x in (key, value))
        return spec.scaled_dot_product_attention(query, k, v, mask)

    return Variant(
        inputs=(q, k, v, *more),
        run=run,
        spec=by_loops,
        remake=mix,
        limit=lambda: limit(run, q, k, v),
        torch=theirs,
        fused=True,
        **oracles,
    )


@variant("flash_attention")
def plain(p, s):
    return flashed(
        p,
        s,
        fixed={},
        theirs=F.scaled_dot_product_attention,
        flex=flex,
        limit=lambda run, q, k, v: (
            run(q, k, v, scale=0.0),
            v.mean(-2, keepdim=True).expand(s.b, s.h, s.n, s.e),
        ),
    )


@variant("flash_attention, causal")
def causal(p, s):
    return flashed(
        p,
        s,
        visible=spec.causal(s.n, s.m),
        fixed={"is_causal": True},
        theirs=partial(F.scaled_dot_product_attention, is_causal=True),
        flex=partial(flex, mask_mod=p.masks.causal),
        is_causal=True,
        limit=lambda run, q, k, v: (
            run(q, k, v, offset=s.m),
            F.scaled_dot_product_attention(q, k, v),
        ),
    )


@variant("flash_attention, causal, ends aligned")
def aligned(p, s):
    ends = s.m - s.n
    visible = spec.causal(s.n, s.m, ends)
    return flashed(
        p,
        s,
        visible=visible,
        fixed={"is_causal": True, "offset": ends},
        theirs=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible),
        flex=partial(flex, mask_mod=p.masks.causal_at(ends)),
        # The last query reads everything.
        limit=lambda run, q, k, v: (
            run(q, k, v)[:, :, -1:],
            F.scaled_dot_product_attention(q[:, :, -1:], k, v),
        ),
    )


@variant("flash_attention, bool mask")
def bool_mask(p, s):
    visible = some_pairs(s.b, 1, s.n, s.m)
    return flashed(
        p,
        s,
        visible,
        fixed={},
        theirs=F.scaled_dot_product_attention,
        flex=lambda q, k, v, mask: flex(q, k, v, mask_mod=lambda b, h, i, j: mask[b, 0, i, j]),
        limit=lambda run, q, k, v: (run(q, k, v, torch.ones_like(visible)), run(q, k, v)),
    )


@variant("flash_attention, enable_gqa", b=5, h=6, g=2, n=7, m=3)
def grouped(p, s):
    return flashed(
        p,
        s,
        fixed={"enable_gqa": True},
        theirs=partial(F.scaled_dot_product_attention, enable_gqa=True),
        flex=partial(flex, enable_gqa=True),
        limit=lambda run, q, k, v: (
            run(q[:, : s.g], k, v),
            F.scaled_dot_product_attention(q[:, : s.g], k, v),
        ),
    )
