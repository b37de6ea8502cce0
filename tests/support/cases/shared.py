"""Layers that share key heads, or keep latents, among the variants; and attention behind a cache."""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, module, qkv, variant
from support.cases.layers import attending, heads_of, sequences
from support.cases.oracles import flex


def grouped(p, s, layer, limit=None, *, is_causal=False, positions=None):
    """A variant of a self-attention layer with s.g key heads for its s.h query heads.

    Its limit is multi-head attention in which the heads of a group are copies, if no other is given.
    """
    (x,) = sequences(s)
    layer = layer.double().eval()
    fixed = {"is_causal": is_causal}
    if positions is not None:
        fixed["positions"] = torch.tensor(positions)

    def by_loops(x):
        parameters = dict(layer.named_parameters())
        options = {"num_kv_heads": s.g, "positions": positions, "is_causal": is_causal}
        return spec.multi_head_attention(x, x, x, parameters, s.h, **options)

    def by_torch(x):
        counts = {"q": s.h, "k": s.g, "v": s.g}
        q, k, v = (heads_of(layer, x, f"{name}_proj", count) for name, count in counts.items())
        output = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        return layer.out_proj(output.transpose(1, 2).flatten(2))

    def dropped(x):
        layer.train()
        return layer(x, need_weights=True, **fixed)

    def with_copied_heads(layer, x):
        general = p.layers.MultiHeadAttention(s.h * s.d, s.h).double()
        state = layer.state_dict()
        for name in [name for name in state if name.startswith(("k_proj", "v_proj"))]:
            heads = state[name].unflatten(0, (s.g, s.d)).repeat_interleave(s.h // s.g, 0)
            state[name] = heads.flatten(0, 1)
        general.load_state_dict(state)
        return general(x, **fixed), layer(x, **fixed)

    more = {"spec": by_loops, "dropped": dropped, "fixed": fixed, "fused": True}
    oracle = by_torch if positions is None else None
    return attending(layer, x, limit or with_copied_heads, torch=oracle, **more)


@variant("GroupedQueryAttention", h=6, g=2, m=5, d=4)
def grouped_query(p, s):
    return grouped(p, s, p.shared_heads.GroupedQueryAttention(s.h * s.d, s.h, s.g, dropout=0.5))


@variant("GroupedQueryAttention, causal", h=6, g=3, m=5, d=4)
def grouped_query_causal(p, s):
    layer = p.shared_heads.GroupedQueryAttention(s.h * s.d, s.h, s.g, dropout=0.5)
    return grouped(p, s, layer, is_causal=True)


@variant("MultiQueryAttention, causal", g=1, m=5, d=4)
def multi_query(p, s):
    layer = p.shared_heads.MultiQueryAttention(s.h * s.d, s.h, dropout=0.5)
    return grouped(p, s, layer, is_causal=True)


@variant("MultiHeadAttention, rotary", h=6, g=2, m=5, d=4)
def rotary(p, s):
    def moved_together(layer, x):  # only distances count
        near, far = (torch.arange(start, start + s.n) for start in (0, 100))
        return tuple(layer(x, is_causal=True, positions=at) for at in (far, near))

    layer = p.shared_heads.GroupedQueryAttention(s.h * s.d, s.h, s.g, dropout=0.5)
    return grouped(p, s, layer, moved_together, is_causal=True, positions=list(range(s.n)))


def latent(p, s, absorbed: bool):
    """A variant of `LatentAttention`; the loops know the plain form only."""
    (x,) = sequences(s, (s.n, 17))
    torch.manual_seed(0)
    sizes = {"head_dim": s.d, "latent_dim": 7, "rotary_dim": 4, "dropout": 0.5}
    layer = module(p, "latent").LatentAttention(17, s.h, **sizes).double().eval()
    with torch.no_grad():  # ones would hide that they are there
        layer.latent_norm.weight.copy_(torch.linspace(0.5, 2.0, 7))

    def values(x):
        return heads_of(layer, layer.latent_norm(layer.latent_proj(x)), "v_proj", s.h)

    def other_form(layer, x):
        return layer(x, absorbed=not absorbed), layer(x, absorbed=absorbed)

    def dropped(x):
        return layer.train()(x, absorbed=absorbed, need_weights=True)

    return attending(
        layer, x, other_form, fixed={"absorbed": absorbed}, dropped=dropped, is_causal=True,
        spec=lambda x: spec.latent_attention(x, dict(layer.named_parameters()), s.h),
        remake=lambda w, x: layer.out_proj((w @ values(x)).transpose(1, 2).flatten(2)),
    )  # fmt: skip


@variant("LatentAttention", m=5)
def latent_plain(p, s):
    return latent(p, s, absorbed=False)


@variant("LatentAttention, absorbed", m=5)
def latent_absorbed(p, s):
    return latent(p, s, absorbed=True)


@variant("cached_attention", h=6, g=2, n=3, m=7)
def cached(p, s):
    q, k, v = qkv(s)
    ends = spec.causal(s.n, s.m, s.m - s.n)

    return Variant(
        inputs=(q, k, v),
        run=p.cache.cached_attention,
        spec=lambda q, k, v: spec.grouped_query_attention(q, k, v, ends),
        # Behind everything else, a single query reads all.
        limit=lambda: (
            p.cache.cached_attention(q[:, :, -1:], k, v),
            F.scaled_dot_product_attention(q[:, :, -1:], k, v, enable_gqa=True),
        ),
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, ends, enable_gqa=True),
        flex=partial(flex, mask_mod=p.masks.causal_at(s.m - s.n), enable_gqa=True),
        fused=True,
    )


@variant("cached_attention, nothing before", h=6, g=2, n=5, m=5)
def cached_from_the_start(p, s):
    return replace(cached(p, s), is_causal=True)
