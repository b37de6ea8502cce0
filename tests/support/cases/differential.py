"""Attention that subtracts one map from another, among the variants."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module, some_pairs, variant, weighing
from support.cases.layers import attending, heads_of, sequences
from support.mutants import MUTANTS

START = 0.8 - 0.6 * math.exp(-0.3 * 2)  # lambda_init of layer 2
LAM = torch.tensor(0.7, dtype=torch.float64)


def pairs(s):
    """Queries and keys of two heads for each of the values'."""
    return draw((s.b, 2 * s.h, s.n, s.d), (s.b, 2 * s.h, s.m, s.d), (s.b, s.h, s.m, s.e))


def differential(p, s, limit, spec_mask=None, **options):
    attend = module(p, "differential").differential_attention
    q, k, v = pairs(s)
    causal = options.get("is_causal", False)

    def stored(q, k, v, lam, **more):
        return attend(q, k, v, lam, **options | more)

    return weighing(
        (q, k, v, LAM.clone()), stored, limit=lambda: limit(attend, q, k, v), leaves_rest=True,
        spec=lambda *inputs: spec.differential_attention(*inputs, spec_mask, causal), is_causal=causal,
    )  # fmt: skip


@variant("differential_attention", d=4, e=3)
def subtracted(p, s):
    def nothing_is_subtracted(attend, q, k, v):
        by_torch = F.scaled_dot_product_attention(q[:, ::2], k[:, ::2], v, scale=0.3)
        return attend(q, k, v, 0.0, scale=0.3)[0], by_torch

    return differential(p, s, nothing_is_subtracted)


@variant("differential_attention, causal and bool mask", n=5, m=5, d=4, e=3)
def subtracted_masked(p, s):
    visible = some_pairs(s.b, s.h, s.n, s.m)

    def what_both_read_is_gone(attend, q, k, v):
        twins = [x[:, ::2].repeat_interleave(2, dim=1) for x in (q, k)]
        seen = visible & spec.causal(s.n, s.m)
        by_torch = F.scaled_dot_product_attention(q[:, ::2], k[:, ::2], v, seen)
        return attend(*twins, v, 0.25, attn_mask=visible, is_causal=True)[0], 0.75 * by_torch

    return differential(p, s, what_both_read_is_gone, visible, attn_mask=visible, is_causal=True)


def differential_layer(p, embed_dim: int, num_heads: int, layer: int = 2, **options):
    """A layer in float64 whose norm has learned something."""
    torch.manual_seed(0)
    made = module(p, "differential").DifferentialAttention(embed_dim, num_heads, layer, **options)
    made = made.double()
    with torch.no_grad():
        made.norm.weight.copy_(draw((embed_dim // num_heads,))[0])
    return made


@variant("DifferentialAttention, causal", n=5, m=5, d=2)
def differential_attention_layer(p, s):
    (x,) = sequences(s, (s.n, 2 * s.h * s.d))
    layer = differential_layer(p, 2 * s.h * s.d, s.h)
    counts = (2 * s.h, 2 * s.h, s.h)

    def normed(heads):
        """The norm and all behind it, from the heads as loops or torch made them."""
        small = heads / torch.sqrt(heads.square().mean(-1, keepdim=True) + 1e-5)
        return layer.out_proj(spec.merge_heads((1 - START) * small * layer.norm.weight))

    def lam():
        one, two = (layer.lambda_q1 @ layer.lambda_k1, layer.lambda_q2 @ layer.lambda_k2)
        return torch.exp(one) - torch.exp(two) + START

    def by_loops(q, k, v):
        return spec.differential_attention(q, k, v, lam(), is_causal=True)

    def by_torch(layer, x):
        names = ("q_proj", "k_proj", "v_proj")
        q, k, v = (heads_of(layer, x, name, h) for name, h in zip(names, counts, strict=True))
        causal = partial(F.scaled_dot_product_attention, is_causal=True)
        one, two = (causal(q[:, i::2], k[:, i::2], v) for i in (0, 1))
        return layer(x, is_causal=True), normed(one - lam() * two)

    more = {"fixed": {"is_causal": True}, "fused": True, "leaves_rest": True}
    return attending(layer, x, by_torch, by_loops, counts, normed, **more)


MUTANTS += [
    ("differential", "first - lam * second", "first + lam * second"),
    ("differential", "both[:, ::2] - self.lam() * both[:, 1::2]", "both[:, 1::2] - self.lam() * both[:, ::2]"),
    ("differential", "halves = (half.repeat_interleave(2, dim=1)", "halves = (half.repeat(1, 2, 1, 1)"),
    ("differential", "attn_mask = attn_mask.repeat_interleave(2, dim=1)", "attn_mask = attn_mask.repeat(1, 2, 1, 1)"),
    ("differential", "half, attn_mask, is_causal, False", "half, attn_mask, False, False"),
    ("differential", "first - lam * second", "second - lam * first"),
    ("differential", "first - lam * second", "first - lam * second.detach()"),
    ("differential", "first - lam * second", "first - second"),
    ("differential", "query[:, k::2], key[:, k::2], scale", "query[:, k * pairs :][:, :pairs], key[:, k * pairs :][:, :pairs], scale"),
    ("differential", "query[:, k::2], key[:, k::2], scale", "query[:, k::2], key[:, ::2], scale"),
    ("differential", "query[:, k::2], key[:, k::2], scale", "query[:, k::2], key[:, k::2]"),
    ("differential", "    if is_causal:\n", "    if is_causal and attn_mask is None:\n"),
    ("differential", "== key.size(1) == 2 * pairs", "== key.size(1)"),
    ("differential", "0.8 - 0.6 * math.exp(-0.3 * layer)", "0.8 - 0.6 * math.exp(-0.3 * (layer - 1))"),
    ("differential", "if embed_dim % (2 * num_heads):", "if embed_dim % 2:"),
    ("differential", "0.1 * torch.randn(width // 2)", "torch.randn(width // 2)"),
    ("differential", "return first - second + self.lambda_init", "return first + second + self.lambda_init"),
    ("differential", "return first - second + self.lambda_init", "return first - second"),
    ("differential", "(1 - self.lambda_init) * self.norm(heads)", "self.norm(heads)"),
    ("differential", "(1 - self.lambda_init) * self.norm(heads)", "(1 - self.lambda_init) * heads"),
    ("differential", "nn.RMSNorm(width, eps=1e-5)", "nn.LayerNorm(width, eps=1e-5, bias=False)"),
    ("differential", "x.unflatten(-1, (2, -1)).transpose(2, 3).flatten(1, 2)", "x.unflatten(-1, (-1, 2)).movedim(-1, 2).flatten(1, 2)"),
    ("differential", "q, k = rotary(q, positions), rotary(k, positions)", "q, k = rotary(q, positions), k"),
    ("differential", "if type(cache) is not KVCache:", "if not isinstance(cache, KVCache):"),
    ("differential", "layer.project(x, x, x, positions)", "layer.project(x, x, x)"),
    ("differential", "add_causal(None, m, m, x.device)[m - n :]", "add_causal(None, n, m, x.device)"),
]  # fmt: skip
