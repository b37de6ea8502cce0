"""A layer with all that the released delta layers have, among the variants."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, module, variant
from support.cases.gated import STATE, by_tokens, per_head
from support.cases.layers import sequences
from support.mutants import MUTANTS


@variant("ShortConvolution, in GatedDeltaAttention", h=4, g=2, n=5, m=5, d=4)
def with_convolution(p, s):
    """And with fewer heads of queries and keys than of values, and a gate."""
    (x,) = sequences(s)
    torch.manual_seed(0)
    make = partial(module(p, "delta").GatedDeltaAttention, s.h * s.d, s.h, num_qk_heads=s.g)
    layer = make(conv_size=3, gate="silu", chunk=2).double()

    def by_loops(x):
        parts = [F.linear(x, proj.weight) for proj in (layer.q_proj, layer.k_proj, layer.v_proj)]
        mixed = spec.short_convolution(torch.cat(parts, -1), layer.conv.weight)
        q, k, v = mixed.split([part.size(-1) for part in parts], -1)
        q, k = (spec.split_heads(y, s.g)[:, [0, 0, 1, 1]] for y in (q, k))
        g = -torch.exp(layer.rate)[:, None] * F.softplus(per_head(x, layer.decay_proj, s.h))
        beta = torch.sigmoid(per_head(x, layer.beta_proj, s.h))
        v = spec.split_heads(v, s.h)
        heads, weights = by_tokens(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, g, beta)
        return joined(heads, x), weights

    def joined(heads, x):
        heads = F.rms_norm(heads, heads.shape[-1:], layer.norm.weight, 1e-6)
        gate = F.linear(x, layer.gate_proj.weight)
        return F.linear(spec.merge_heads(heads) * gate * torch.sigmoid(gate), layer.out_proj.weight)

    def its_own_token_alone():
        with torch.no_grad():
            layer.conv.weight.copy_(torch.tensor([0.0, 0.0, 1.0]).expand_as(layer.conv.weight))
        q, k, v = layer.projected(x)[0]
        plain = [F.silu(F.linear(x, y.weight)) for y in (layer.q_proj, layer.k_proj, layer.v_proj)]
        repeated = [spec.split_heads(y, s.g)[:, [0, 0, 1, 1]] for y in plain[:2]]
        return torch.stack([q, k, v]), torch.stack([*repeated, spec.split_heads(plain[2], s.h)])

    stored = partial(layer, need_weights=True)

    def remake(weights, x):
        return joined(weights @ layer.projected(x)[0][2], x)

    return Variant(
        (x,), layer, by_loops, its_own_token_alone, remake=remake, stored=stored, layer=layer, **STATE
    )  # fmt: skip


MUTANTS += [
    ("short_convolution", "self.weight[:, s] *", "self.weight[:, -1 - s] *"),
    ("short_convolution", "return F.silu(y), x[:, n:]", "return y, x[:, n:]"),
    ("short_convolution", "return F.silu(y), x[:, n:]", "return F.silu(y), x[:, : self.size - 1]"),
    ("short_convolution", "        if size < 1:\n", "        if size < 0:\n"),
]  # fmt: skip
