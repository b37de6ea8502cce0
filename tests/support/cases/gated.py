"""Attention whose state decays, or is corrected, among the variants."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, draw, module, variant
from support.cases.layers import attending, heads_of, sequences
from support.mutants import MUTANTS

# What holds of every state: its weights sum to anything, and are not stored.
STATE = {"is_causal": True, "any_sum": True, "fused": True}


def by_tokens(q, k, v, g, beta=None, scale=None):
    """Output and weights: what is read is linear in the values, so unit vectors as values give the weights."""
    unit = torch.eye(q.size(2), dtype=q.dtype).expand(*q.shape[:3], -1)
    return tuple(spec.state_space(q, k, x, g, beta, scale)[0] for x in (v, unit))


def sequence(s, decays=()):
    """Queries, keys, values and log-decays of one sequence."""
    widths = ((s.d,), (s.d,), (s.e,), decays)
    q, k, v, g = draw(*[(s.b, s.h, s.n, *width) for width in widths])
    return q, F.normalize(k, dim=-1), v, -g.abs()


def gated_variant(p, s, limit, decays=()):
    """Chunks of 2 tokens, so that there are many of them."""
    gated = module(p, "gated")
    q, k, v, g = sequence(s, decays)

    def stored(q, k, v, g):
        weights = gated.gated_weights(q, k, g)
        return weights @ v, weights

    run = partial(gated.gated_linear_attention, chunk=2)
    limited = partial(limit, run, q, k, v, g)
    return Variant(
        (q, k, v, g), run, by_tokens, limited, stored=None if decays else stored, **STATE
    )


@variant("gated_linear_attention", n=7, m=7, d=4)
def one_decay(p, s):
    def nothing_forgotten(run, q, k, v, g):
        return run(q, k, v, 0 * g), (q @ k.mT / s.d**0.5).tril() @ v

    return gated_variant(p, s, nothing_forgotten)


@variant("gated_linear_attention, decay for each channel", n=7, m=7, d=4)
def many_decays(p, s):
    def one_for_all(run, q, k, v, g):
        one = g[..., :1].expand_as(g)
        return run(q, k, v, one), run(q, k, v, g[..., 0])

    return gated_variant(p, s, one_for_all, (s.d,))


def delta_variant(p, s, limit, decays=None):
    delta = module(p, "delta")
    q, k, v, g = sequence(s, decays or ())
    (beta,) = draw((s.b, s.h, s.n))
    inputs = (q, k, v, torch.sigmoid(beta)) if decays is None else (q, k, v, torch.sigmoid(beta), g)

    def run(q, k, v, beta, g=None):
        return delta.delta_rule(q, k, v, beta, log_decay=g, chunk=3)

    def by_loops(q, k, v, beta, g=None):
        return by_tokens(q, k, v, 0 * beta if g is None else g, beta)

    return Variant(inputs, run, by_loops, partial(limit, run, *inputs), **STATE)


@variant("delta_rule", n=7, m=7, d=4)
def plain_delta(p, s):
    def orthogonal_keys(run, q, k, v, beta):  # nothing to correct: every value is added
        k = torch.linalg.qr(torch.randn(s.n, s.n).double())[0].expand(s.b, s.h, s.n, s.n)
        q = k.roll(1, 2) + k
        added = (q @ k.mT / s.n**0.5).tril() @ (beta[..., None] * v)
        return run(q, k, v, beta), added

    return delta_variant(p, s, orthogonal_keys)


@variant("delta_rule, decay for each head", n=7, m=7, d=4)
def gated_delta(p, s):
    def all_forgotten(run, q, k, v, beta, g):
        own = (q * k).sum(-1, keepdim=True) / s.d**0.5 * beta[..., None] * v
        return run(q, k, v, beta, g - 1e3), own

    return delta_variant(p, s, all_forgotten, ())


@variant("delta_rule, decay for each channel", n=7, m=7, d=4)
def channel_delta(p, s):
    def one_for_all(run, q, k, v, beta, g):
        return run(q, k, v, beta, g[..., :1].expand_as(g)), run(q, k, v, beta, g[..., 0])

    return delta_variant(p, s, one_for_all, (s.d,))


def layered(p, s, layer, gates, simpler):
    """A layer; ``gates`` gives log-decay and beta from its input, ``simpler`` what it must equal."""
    (x,) = sequences(s)
    layer = layer.double()

    def projected(x, unit):
        q, k, v = (heads_of(layer, x, f"{a}_proj", s.h) for a in "qkv")
        return (F.normalize(q, dim=-1), F.normalize(k, dim=-1), v) if unit else (q, k, v)

    def behind(heads):
        heads = F.rms_norm(heads, heads.shape[-1:], layer.norm.weight, 1e-6)
        return layer.out_proj(spec.merge_heads(heads))

    def by_loops(x):
        g, beta = gates(layer, x)
        out, weights = by_tokens(*projected(x, beta is not None), g, beta)
        return behind(out), weights

    more = {"spec": by_loops, "masked": None, **STATE}
    limit = lambda layer, x: simpler(layer, x, projected, behind)  # noqa: E731
    return attending(layer, x, limit, heads=(s.h,) * 3, joined=behind, **more)


def per_head(x, proj, heads):
    """(b, n, h or h * d) to (b, h, n) or (b, h, n, d)."""
    y = F.linear(x, proj.weight, proj.bias).unflatten(-1, (heads, -1)).transpose(1, 2)
    return y[..., 0] if y.size(-1) == 1 else y


@variant("GatedLinearAttention", n=5, m=5, d=4)
def gated_layer(p, s):
    torch.manual_seed(0)
    layer = module(p, "gated").GatedLinearAttention(s.h * s.d, s.h, per_channel=False, chunk=2)

    def gates(layer, x):
        return torch.log(torch.sigmoid(per_head(x, layer.decay_proj, s.h))) / 16, None

    def gate_open(layer, x, projected, behind):
        with torch.no_grad():
            layer.decay_proj.bias.fill_(1e3)
        q, k, v = projected(x, False)
        return layer(x), behind((q @ k.mT / s.d**0.5).tril() @ v)

    return layered(p, s, layer, gates, gate_open)


@variant("GatedDeltaAttention", n=5, m=5, d=4)
def delta_layer(p, s):
    torch.manual_seed(0)
    layer = module(p, "delta").GatedDeltaAttention(s.h * s.d, s.h, chunk=2)
    with torch.no_grad():
        layer.rate.copy_(torch.linspace(-1, 1, s.h))

    def gates(layer, x):
        rate = torch.exp(layer.rate)[:, None]
        g = -rate * torch.log1p(torch.exp(per_head(x, layer.decay_proj, s.h)))
        return g, torch.sigmoid(per_head(x, layer.beta_proj, s.h))

    def gates_shut(layer, x, projected, behind):  # all is forgotten but the token itself
        with torch.no_grad():
            layer.decay_proj.bias.fill_(1e3)
        q, k, v = projected(x, True)
        beta = torch.sigmoid(per_head(x, layer.beta_proj, s.h))[..., None]
        return layer(x), behind((q * k).sum(-1, keepdim=True) / s.d**0.5 * beta * v)

    return layered(p, s, layer, gates, gates_shut)


@variant("DeltaAttention", n=5, m=5, d=4)
def plain_delta_layer(p, s):
    torch.manual_seed(0)
    layer = module(p, "delta").DeltaAttention(s.h * s.d, s.h, chunk=2)

    def gates(layer, x):
        beta = torch.sigmoid(per_head(x, layer.beta_proj, s.h))
        return 0 * beta, beta

    def nothing_fades(layer, x, projected, behind):
        gated = module(p, "delta").GatedDeltaAttention(s.h * s.d, s.h).double()
        gated.load_state_dict(layer.state_dict(), strict=False)
        torch.nn.init.constant_(gated.rate, -torch.inf)
        return layer(x), gated(x)

    return layered(p, s, layer, gates, nothing_fades)


MUTANTS += [
    ("gated", "scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale", "scale = 1.0 if scale is None else scale"),
    ("gated", "(q * decay.since) @ state", "q @ state"),
    ("gated", "    hidden = padding(key_mask, key)\n", "    hidden = None\n"),
    ("gated", "query / math.sqrt(query.size(-1)))[0]", "query)[0]"),
    ("gated", "unread(padding(key_mask, key), key, log_decay)", "(key, log_decay)"),
    ("gated", " / 16, self.num_heads)", ", self.num_heads)"),
    ("gated", "self.norm = nn.RMSNorm(self.head_dim, eps=1e-6)", "self.norm = nn.RMSNorm(self.head_dim, eps=1e-6, elementwise_affine=False)"),
    ("gated", '**{"is_causal=False": not is_causal}', '**{"is_causal=False": None}'),
    ("gated", "if need_weights and (state is not None or return_state):", "if False:"),
    ("gated", 'check_divisible("embed_dim", embed_dim, num_heads)', "pass"),
    ("gated", 'check_divisible("num_heads", num_heads, num_qk_heads, "num_qk_heads")', "pass"),
    ("gated", "        if gate not in GATES:\n", "        if gate in ():\n"),
    ("gated", "query = query.masked_fill(~present[:, 0, :, None], 0.0)", "pass"),
    ("gated", "state=table, key_mask=present)", "state=table)"),
    ("gated", "self.weights(*heads, key_mask=present)", "self.weights(*heads)"),
    ("gated", "mixed, tail = self.conv(torch.cat(parts, dim=-1), tail)", "mixed, tail = self.conv(torch.cat(parts, dim=-1))"),
    ("gated", "self.rotary(q, positions), self.rotary(k, positions)", "q, self.rotary(k, positions)"),
    ("gated", "        if self.gate is not None:\n", "        if self.gate is False:\n"),
    ("gated", '"sigmoid": torch.sigmoid}', '"sigmoid": F.silu}'),
    ("gated", "attn_mask=mask, positions=positions, state=state", "attn_mask=mask, state=state"),
    ("gated", "attn_mask=mask, positions=positions, state=state", "positions=positions, state=state"),
    ("delta", "x.new_zeros(x.size(0), self.num_heads, x.size(1))", "x.new_zeros(x.size(0), self.num_heads, x.size(1)) - 0.02"),
    ("delta", "v - (k * decay.since) @ state", "v - k @ state"),
    ("delta", "v - (k * decay.since) @ state", "v"),
    ("delta", "system = (beta * agree).tril(-1)", "system = (beta.mT * agree).tril(-1)"),
    ("delta", "solve(agree, b, b * alone)", "solve(agree, b, alone)"),
    ("delta", "torch.linalg.solve_triangular(system, alone, upper=False, unitriangular=True)", "alone - system @ alone"),
    ("delta", "if beta.shape != query.shape[:3]:", "if False:"),
    ("delta", "    hidden = padding(key_mask, key)\n", "    hidden = None\n"),
    ("delta", "unread(padding(key_mask, key), key, log_decay)", "(key, log_decay)"),
    ("delta", "F.normalize(k, dim=-1), v", "k, v"),
    ("delta", "F.normalize(q, dim=-1), F", "q, F"),
    ("delta", "        q, k = self.turned(q, k, positions)\n", ""),
    ("delta", "-self.rate.exp()[:, None, None]", "-self.rate[:, None, None]"),
    ("delta", "torch.diag_embed(beta))", "torch.diag_embed(torch.ones_like(beta)))"),
    ("delta", "log_decay = torch.zeros_like(beta) if log_decay is None", "log_decay = -torch.ones_like(beta) if log_decay is None"),
    ("delta", "(q * decay.since) @ state + read", "q @ state + read"),
]  # fmt: skip
