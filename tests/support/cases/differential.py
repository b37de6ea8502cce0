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
    return draw((s.b, 2 * s.h, s.n, s.d), (s.b, 2 * s.g, s.m, s.d), (s.b, s.g, s.m, s.e))


def apart(h, k, v):
    """Keys and values of g pairs, again and again for each of h pairs: torch and the loops know no shared ones."""
    times = h // v.size(1)
    k = k.unflatten(1, (-1, 2)).repeat_interleave(times, dim=1).flatten(1, 2)
    return k, v.repeat_interleave(times, dim=1)


def differential(p, s, limit, spec_mask=None, **options):
    attend = module(p, "differential").differential_attention
    q, k, v = pairs(s)
    causal = options.get("is_causal", False)

    def stored(q, k, v, lam, **more):
        return attend(q, k, v, lam, **options | more)

    def by_loops(q, k, v, lam):
        return spec.differential_attention(q, *apart(s.h, k, v), lam, spec_mask, causal)

    return weighing(
        (q, k, v, LAM.clone()), stored, limit=lambda: limit(attend, q, k, v), leaves_rest=True,
        spec=by_loops, is_causal=causal, dropped=lambda *inputs: stored(*inputs, dropout_p=0.5),
    )  # fmt: skip


@variant("differential_attention", h=4, g=2, d=4, e=3)
def subtracted(p, s):
    def nothing_is_subtracted(attend, q, k, v):
        first = q[:, ::2], k[:, ::2], v
        by_torch = F.scaled_dot_product_attention(*first, scale=0.3, enable_gqa=True)
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
    made = made.double().eval()
    with torch.no_grad():
        made.norm.weight.copy_(draw((embed_dim // num_heads,))[0])
    return made


def layered(p, s):
    """A variant of `DifferentialAttention`."""
    (x,) = sequences(s, (s.n, 2 * s.h * s.d))
    layer = differential_layer(p, 2 * s.h * s.d, s.h, num_kv_heads=s.g, dropout=0.5)
    counts = (2 * s.h, 2 * s.g, s.g)

    def normed(heads):
        """The norm and all behind it, from the heads as loops or torch made them."""
        small = heads / torch.sqrt(heads.square().mean(-1, keepdim=True) + 1e-5)
        return layer.out_proj(spec.merge_heads((1 - START) * small * layer.norm.weight))

    def lam():
        one, two = (layer.lambda_q1 @ layer.lambda_k1, layer.lambda_q2 @ layer.lambda_k2)
        return torch.exp(one) - torch.exp(two) + START

    def by_loops(q, k, v):
        return spec.differential_attention(q, *apart(s.h, k, v), lam(), is_causal=True)

    def by_torch(layer, x):
        names = ("q_proj", "k_proj", "v_proj")
        q, k, v = (heads_of(layer, x, name, h) for name, h in zip(names, counts, strict=True))
        k, v = apart(s.h, k, v)
        causal = partial(F.scaled_dot_product_attention, is_causal=True)
        one, two = (causal(q[:, i::2], k[:, i::2], v) for i in (0, 1))
        return layer(x, is_causal=True), normed(one - lam() * two)

    def dropped(x):
        return layer.train()(x, is_causal=True, need_weights=True)

    more = {"fixed": {"is_causal": True}, "fused": True, "leaves_rest": True, "dropped": dropped}
    return attending(layer, x, by_torch, by_loops, counts, normed, **more)


@variant("DifferentialAttention, causal", n=5, m=5, d=2)
def differential_attention_layer(p, s):
    return layered(p, s)


@variant("DifferentialAttention, causal and shared keys", h=4, g=2, n=5, m=5, d=2)
def differential_attention_layer_shared(p, s):
    return layered(p, s)


MUTANTS += [
    ("differential", "(query[:, ::2], key[:, ::2]) - lam", "(query[:, ::2], key[:, ::2]) + lam"),
    ("differential", "(query[:, ::2], key[:, ::2]) - lam * weights_of", "(query[:, ::2], key[:, ::2]) - weights_of"),
    ("differential", "        query[:, 1::2], key[:, 1::2]\n", "        query[:, 1::2], key[:, ::2]\n"),
    ("differential", "        query[:, 1::2], key[:, 1::2]\n", "        query[:, 1::2].detach(), key[:, 1::2]\n"),
    ("differential", "score(fold_heads(q, g), k, scale), h)", "score(fold_heads(q, g), k), h)"),
    ("differential", "normalize(mask(scores, attn_mask))", "normalize(scores)"),
    ("differential", "    if is_causal:\n", "    if is_causal and attn_mask is None:\n"),
    ("differential", "query.device, offset)", "query.device)"),
    ("differential", "F.dropout(weights, dropout_p) if", "F.dropout(weights) * 0.5 if"),
    ("differential", "query.size(1) % 2 or key.size(1) != 2 * g", "query.size(1) % 2"),
    ("differential", "query.size(1) % 2 or key.size(1) != 2 * g", "key.size(1) != 2 * g"),
    ("differential", "    check_sequences(query[:, ::2], key[:, ::2], value, shared_heads=True)\n", ""),
    ("differential", "*inputs, dropout_p=self.dropout_p, ", "*inputs, "),
    ("differential", "return first - self.lam() * second", "return first + self.lam() * second"),
    ("differential", "return first - self.lam() * second", "return first - second"),
    ("differential", "attend(q[:, c::2], k[:, c::2], half", "attend(q[:, c::2], k[:, ::2], half"),
    ("differential", "half, **options)[0]", "half)[0]"),
    ("differential", "half in v.chunk(2, -1)", "half in v.chunk(2, -1)[::-1]"),
    ("differential", "return (2 * g, width // 2), (g, width)", "return (g, width), (g, width)"),
    ("differential", "norm(heads.to(norm.weight.dtype)).to(heads.dtype)", "norm(heads)"),
    ("differential", "0.8 - 0.6 * math.exp(-0.3 * layer)", "0.8 - 0.6 * math.exp(-0.3 * (layer - 1))"),
    ("differential", "if embed_dim % (2 * num_heads):", "if embed_dim % 2:"),
    ("differential", "0.1 * torch.randn(width // 2)", "torch.randn(width // 2)"),
    ("differential", "return first - second + self.lambda_init", "return first + second + self.lambda_init"),
    ("differential", "return first - second + self.lambda_init", "return first - second"),
    ("differential", "(1 - self.lambda_init) * normed(heads, self.norm)", "normed(heads, self.norm)"),
    ("differential", "(1 - self.lambda_init) * normed(heads, self.norm)", "(1 - self.lambda_init) * heads"),
    ("differential", "nn.RMSNorm(width, eps=1e-5)", "nn.LayerNorm(width, eps=1e-5, bias=False)"),
    ("differential", "x.unflatten(-1, (2, -1)).transpose(2, 3).flatten(1, 2)", "x.unflatten(-1, (-1, 2)).movedim(-1, 2).flatten(1, 2)"),
    ("differential", "q, k = self.rotary(q, positions), self.rotary(k, positions)", "q, k = self.rotary(q, positions), k"),
    ("differential", "decodes(DifferentialAttention)(decode_by_attend)", ""),
    ("differential", "if need_weights or self.dropout_p or q.size(2) == 1:", "if True:"),
    ("differential", "if need_weights or self.dropout_p or q.size(2) == 1:", "if need_weights or q.size(2) == 1:"),
]  # fmt: skip
