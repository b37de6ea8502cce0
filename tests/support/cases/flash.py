"""FlashAttention in plain PyTorch among the variants. Its weights never exist, so none can be stored."""

from functools import partial
from unittest import mock

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, module, qkv, some_pairs, variant
from support.cases.attention import as_many, flex_masked, mean, nothing_hidden
from support.cases.oracles import flex
from support.mutants import MUTANTS


def flash(p):
    """`flash_attention` of a package; of a private copy, together with that copy's `tiled`."""
    if not hasattr(p, "tiled"):
        return partial(module(p, "flash").flash_attention, backend="tiled")

    def attend(*inputs, **options):
        with mock.patch.object(p.flash, "tiled", p.tiled):
            return p.flash.flash_attention(*inputs, backend="tiled", **options)

    return attend


def flashed(p, s, *more, visible=None, fixed=None, theirs, limit, **oracles):
    """A variant of `flash_attention`.

    Args:
        more: inputs behind query, key and value.
        visible: the pairs that the loops may use, if they are not given by ``more``.
        fixed: options of every call.
        theirs: torch's function with the same meaning.
    """
    q, k, v = qkv(s)
    run = partial(flash(p), **fixed or {})

    def by_loops(query, key, value, mask=visible):
        k, v = (x.repeat_interleave(s.h // s.g, dim=1) for x in (key, value))
        return spec.scaled_dot_product_attention(query, k, v, mask)

    fused = {"torch": theirs, "fused": True, **oracles}
    return Variant((q, k, v, *more), run, by_loops, partial(limit, run, q, k, v), **fused)


@variant("flash_attention")
def plain(p, s):
    return flashed(p, s, limit=mean(s), theirs=F.scaled_dot_product_attention, flex=flex)


@variant("flash_attention, causal")
def causal(p, s):
    def behind_all_keys(run, q, k, v):
        return run(q, k, v, offset=s.m), F.scaled_dot_product_attention(q, k, v)

    return flashed(
        p, s, visible=spec.causal(s.n, s.m), fixed={"is_causal": True}, limit=behind_all_keys,
        theirs=partial(F.scaled_dot_product_attention, is_causal=True),
        flex=partial(flex, mask_mod=p.masks.causal), is_causal=True,
    )  # fmt: skip


@variant("flash_attention, causal, ends aligned")
def aligned(p, s):
    ends = s.m - s.n
    visible = spec.causal(s.n, s.m, ends)

    def last_reads_everything(run, q, k, v):
        return run(q, k, v)[:, :, -1:], F.scaled_dot_product_attention(q[:, :, -1:], k, v)

    return flashed(
        p, s, visible=visible, fixed={"is_causal": True, "offset": ends},
        limit=last_reads_everything,
        theirs=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible),
        flex=partial(flex, mask_mod=p.masks.causal_at(ends)),
    )  # fmt: skip


@variant("flash_attention, bool mask")
def bool_mask(p, s):
    visible = some_pairs(s.b, 1, s.n, s.m)
    return flashed(
        p, s, visible, limit=nothing_hidden(torch.ones_like(visible)), flex=flex_masked,
        theirs=F.scaled_dot_product_attention,
    )  # fmt: skip


@variant("flash_attention, enable_gqa", b=5, h=6, g=2, n=7, m=3)
def grouped(p, s):
    gqa = {"enable_gqa": True}
    by_torch = partial(F.scaled_dot_product_attention, **gqa)
    return flashed(p, s, fixed=gqa, theirs=by_torch, flex=partial(flex, **gqa), limit=as_many(s))


MUTANTS += [
    ("flash", "return () if attn_mask is None else (attn_mask,)", "return ()"),
    ("flash", "check_sequences(query, key, value, shared_heads=True)", "pass"),
    ("tiled", "visible is None or torch.compiler.is_compiling() or seen.any()", "True"),
]  # fmt: skip
