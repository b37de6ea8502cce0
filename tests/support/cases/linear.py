"""Attention without a softmax among the variants."""

from functools import partial

import torch

from attncourse import spec
from support.cases import Variant, mix, module, qkv, variant
from support.cases.layers import attending, sequences
from support.mutants import MUTANTS


def linear_variant(p, s, limit, **options):
    """Chunks of 2 queries, so that there are many of them."""
    linear = module(p, "linear")
    q, k, v = qkv(s)
    run = partial(linear.linear_attention, chunk=2, **options)

    def stored(q, k, v):
        weights = linear.linear_weights(q, k, **options)
        return mix(weights, q, k, v), weights

    return Variant(
        (q, k, v), run, partial(spec.linear_attention, **options), partial(limit, run, q, k, v),
        stored=stored, is_causal=options.get("is_causal", False), fused=True,
        any_sum=not options.get("normalize", True),
    )  # fmt: skip


@variant("linear_attention", h=6, g=2)
def both_ways(p, s):
    def mean(run, q, k, v):  # all features equal
        read = v.mean(2, keepdim=True).repeat_interleave(s.h // s.g, 1)
        return run(q, k, v, feature_map=torch.ones_like), read.expand(s.b, s.h, s.n, s.e)

    return linear_variant(p, s, mean)


@variant("linear_attention, causal", n=7, m=7)
def causal(p, s):
    def running_mean(run, q, k, v):
        read = v.cumsum(2) / torch.arange(1, s.n + 1).view(-1, 1)
        return run(q, k, v, feature_map=torch.ones_like), read

    return linear_variant(p, s, running_mean, is_causal=True)


@variant("linear_attention, causal, only products", h=2, g=2, n=7, m=7)
def products(p, s):
    def products_alone(run, q, k, v):
        return run(q, k, v), (q @ k.mT).tril() @ v

    options = {"is_causal": True, "normalize": False, "feature_map": lambda x: x}
    return linear_variant(p, s, products_alone, **options)


@variant("LinearAttention, causal", h=6, g=2, n=5, m=5, d=4)
def layer(p, s):
    (x,) = sequences(s)
    torch.manual_seed(0)
    make = partial(module(p, "linear").LinearAttention, s.h * s.d, s.h, num_kv_heads=s.g)

    def equal_features(layer, x):
        flat = make(torch.ones_like).double()
        flat.load_state_dict(layer.state_dict())
        general = p.layers.GroupedQueryAttention(s.h * s.d, s.h, s.g).double()
        general.load_state_dict(layer.state_dict())
        with torch.no_grad():
            general.k_proj.weight.zero_()  # every score alike
        return flat(x, is_causal=True), general(x, is_causal=True)

    causal = {"is_causal": True}
    by_loops = partial(spec.linear_attention, **causal)
    more = {"fixed": causal, "masked": None, "fused": True}
    return attending(make(chunk=2).double(), x, equal_features, by_loops, **more)


MUTANTS += [
    ("linear", "torch.exp(x.clamp(max=0)) + x.clamp(min=0)", "torch.expm1(x.clamp(max=0)) + 1 + x.clamp(min=0)"),
    ("linear", "torch.exp(x.clamp(max=0)) + x", "1 + x"),
    ("linear", "/ head_dim**0.25", "/ head_dim**0.5"),
    ("linear", "keepdim=True) / 2", "keepdim=True)"),
    ("linear", "/ math.sqrt(features)", "/ features"),
    ("linear", ".flatten(0, 1)[:features] * lengths", ".flatten(0, 1)[:features]"),
    ("linear", " * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]", ""),
    ("linear", "weights.tril() if is_causal", "weights.tril(-1) if is_causal"),
    ("linear", "torch.ones_like(value[..., :1])", "torch.zeros_like(value[..., :1])"),
    ("linear", "(q @ k.mT).tril() @ v", "(q @ k.mT) @ v"),
    ("linear", "(q @ k.mT).tril() @ v", "(q @ k.mT).tril(-1) @ v"),
    ("linear", "sizes = chunk if is_causal", "sizes = 2 * chunk if not is_causal"),
    ("linear", "queries, keys = feature_map(query), feature_map(key)", "queries, keys = query, feature_map(key)"),
    ("linear", "            state = state + k.mT @ v\n            read = q @ state", "            read = q @ state\n            state = state + k.mT @ v"),
    ("linear", "            read = q @ state + (q @ k.mT).tril() @ v\n", "            read = (q @ k.mT).tril() @ v\n"),
    ("linear", "self.length += n", "self.length = n"),
    ("linear", "        if self.dropout:\n", "        if self.dropout > 1:\n"),
    ("linear", "        if attn_mask is not None:\n", "        if attn_mask is False:\n"),
    ("linear", "    if chunk < 1:\n", "    if chunk < 0:\n"),
    ("linear", "if is_causal and q.size(2) != k.size(2):", "if False:"),
    ("linear", '"state": self.state, ', ''),
    ("linear", '"is_causal": True, ', ''),
    ("linear", "            normalize=self.normalize,\n            chunk", "            chunk"),
    ("linear", "            chunk=self.chunk,\n", ""),
    ("linear", "total.masked_fill(total == 0, 1.0)", "total"),
    ("linear", "isinstance(cache, LinearCache) and cache.layer is layer", "isinstance(cache, LinearCache)"),
    ("linear", "isinstance(cache, LinearCache) and cache.layer is layer", "cache.length == 0"),
]  # fmt: skip
