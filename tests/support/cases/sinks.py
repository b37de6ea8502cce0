"""Attention with sinks, kept in a cache or learned, and attention behind a gate, among the variants."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module, qkv, some_pairs, variant, weighing
from support.cases.layers import attending, heads_of, sequences
from support.mutants import MUTANTS


@variant("streaming_attention", h=6, g=2, n=11, d=4)
def streaming(p, s):
    attend = module(p, "streaming").streaming_attention
    q, k, v = draw((s.b, s.h, s.n, s.d), (s.b, s.g, s.n, s.d), (s.b, s.g, s.n, s.e))
    at = torch.arange(s.n)

    def everything_fits():
        turned = (p.positions.rotary(x, at) for x in (q, k))
        full = F.scaled_dot_product_attention(*turned, v, is_causal=True, enable_gqa=True)
        return attend(q, k, v, 2, s.n)[0], full

    return weighing(
        (q, k, v), lambda q, k, v: attend(q, k, v, 2, 3), limit=everything_fits, masked=None,
        spec=lambda q, k, v: spec.streaming_attention(q, k, v, 2, 3), is_causal=True,
    )  # fmt: skip


@variant("SinkCache", h=6, g=2, n=11, d=4)
def sink_cache(p, s):
    """Token by token; the loops count anew what is kept."""
    whole = streaming(p, s)

    def run(q, k, v, num_sinks=2, window=3):
        options = {"value_dim": s.e, "dtype": q.dtype}
        cache = module(p, "streaming").SinkCache(s.b, s.g, num_sinks, window, s.d, **options)
        parts = zip(*(x.split(1, dim=2) for x in (q, k, v)), strict=True)
        return torch.cat([cache.attend(*part, rotary=p.positions.rotary) for part in parts], dim=2)

    def no_sinks_and_no_forgetting():
        return run(*whole.inputs, num_sinks=0, window=s.n), whole.limit()[1]

    limit = no_sinks_and_no_forgetting
    return replace(whole, run=run, stored=None, learns=False, limit=limit, fused=True)


def with_sink(p, s, limit, visible=None, sink=None, **options):
    """A variant of `sink_attention`, given the sinks or drawing them."""
    attend = module(p, "sinks").sink_attention
    q, k, v = qkv(s)
    sink = draw((s.h,))[0] if sink is None else sink
    return weighing(
        (q, k, v, sink), lambda *inputs, **more: attend(*inputs, **options | more), leaves_rest=True,
        spec=lambda q, k, v, sink: spec.sink_attention(q, k, v, sink, visible),
        limit=lambda: limit(attend, q, k, v, sink),
        dropped=lambda *inputs: attend(*inputs, **options, dropout_p=0.5),
    )  # fmt: skip


@variant("sink_attention", h=6, g=2)
def sink_attention(p, s):
    def closed(attend, q, k, v, sink):
        full = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return attend(q, k, v, torch.full_like(sink, -torch.inf))[0], full

    return with_sink(p, s, closed)


@variant("sink_attention, causal and bool mask", h=3, g=3)
def sink_attention_masked(p, s):
    pairs = some_pairs(s.n, s.m)
    visible = pairs & spec.causal(s.n, s.m)

    def by_log_sum_exp(attend, q, k, v, sink):
        scores = (q @ k.mT / s.d**0.5).masked_fill(~visible, -torch.inf)
        open_ = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sink[:, None, None])
        masked = attend(q, k, v, sink, attn_mask=pairs, is_causal=True)[0]
        return masked, F.scaled_dot_product_attention(q, k, v, visible) * open_

    return with_sink(p, s, by_log_sum_exp, visible, attn_mask=pairs, is_causal=True)


@variant("softmax_off_by_one")
def off_by_one(p, s):
    sinks = module(p, "sinks")
    q, k, v = qkv(s)
    shares = v.sum(-2, keepdim=True) / (s.m + 1)

    def attend(q, k, v, **options):
        return p.steps.attention(q, k, v, normalize=sinks.softmax_off_by_one, **options)

    return weighing(
        (q, k, v), attend, leaves_rest=True,
        spec=lambda q, k, v: spec.sink_attention(q, k, v, torch.zeros(s.h).to(q)),
        # Every score 0: each key takes 1 part of m + 1.
        limit=lambda: (attend(q, k, v, scale=0.0)[0], shares.expand(s.b, s.h, s.n, s.e)),
    )  # fmt: skip


def sink_layer(p, s, **options):
    torch.manual_seed(0)
    layer = module(p, "sinks").SinkAttention(s.h * s.d, s.h, **options).double()
    with torch.no_grad():
        layer.sink.copy_(draw((s.h,))[0])
    return layer


@variant("SinkAttention, causal", h=6, g=2, n=5, m=5, d=4)
def sink_attention_layer(p, s):
    (x,) = sequences(s)
    visible = spec.causal(s.n, s.n)

    def closed(layer, x):
        general = p.shared_heads.GroupedQueryAttention(s.h * s.d, s.h, s.g).double()
        general.load_state_dict(layer.state_dict(), strict=False)
        far = sink_layer(p, s, num_kv_heads=s.g)
        far.load_state_dict({**layer.state_dict(), "sink": torch.full((s.h,), -1e4)})
        return far(x, is_causal=True), general(x, is_causal=True)

    layer = sink_layer(p, s, num_kv_heads=s.g)
    by_loops = lambda q, k, v: spec.sink_attention(q, k, v, layer.sink, visible)  # noqa: E731
    return attending(layer, x, closed, by_loops, fixed={"is_causal": True}, leaves_rest=True)


@variant("GatedAttention, causal", n=5, m=5, d=4)
def gated(p, s):
    (x,) = sequences(s)
    torch.manual_seed(0)
    layer = module(p, "sinks").GatedAttention(s.h * s.d, s.h).double()

    def gates_open(layer, x):
        general = p.layers.MultiHeadAttention(s.h * s.d, s.h).double()
        general.load_state_dict(layer.state_dict(), strict=False)
        wide = module(p, "sinks").GatedAttention(s.h * s.d, s.h).double()
        state = layer.state_dict() | {"gate_proj.weight": torch.zeros(s.h * s.d, s.h * s.d)}
        wide.load_state_dict(state | {"gate_proj.bias": torch.full((s.h * s.d,), 100.0)})
        return wide(x, is_causal=True), general(x, is_causal=True)

    def remake(weights, x):
        mixed = (weights @ heads_of(layer, x, "v_proj", s.h)).transpose(1, 2).flatten(2)
        return layer.out_proj(mixed * torch.sigmoid(layer.gate_proj(x)))

    def by_loops(x):
        return spec.gated_attention(x, dict(layer.named_parameters()), s.h, True)

    more = {"spec": by_loops, "remake": remake, "fixed": {"is_causal": True}, "fused": True}
    return attending(layer, x, gates_open, **more)


MUTANTS += [
    ("streaming", "at.clamp(max=num_sinks + window - 1)", "at"),
    ("streaming", "at.clamp(max=num_sinks + window - 1)", "at.clamp(max=num_sinks + window)"),
    ("streaming", "(j < num_sinks) | (i - j < window)", "(j < num_sinks) | (i - j <= window)"),
    ("streaming", "torch.where(j < num_sinks, far, near)", "far"),
    ("streaming", "far = score(rotary(query, in_cache), turned, scale)", "far = score(query, key, scale)"),
    ("streaming", "range(max(self.num_sinks, after), self.length)", "range(after, self.length)"),
    ("streaming", "positions(n).clamp(max=self.max_length - 1)", "positions(n)"),
    ("streaming", "positions(n).clamp(max=self.max_length - 1)", "positions(n).clamp(max=self.max_length)"),
    ("streaming", "(slots - self.num_sinks - evicted) % self.window", "(slots - self.num_sinks) % self.window"),
    ("streaming", "(slots - self.num_sinks - evicted) % self.window", "(slots - evicted) % self.window"),
    ("streaming", "(slots - self.num_sinks - evicted) % self.window", "(slots - self.num_sinks + evicted) % self.window"),
    ("streaming", "max(self.length - self.max_length, 0)", "self.length - self.max_length"),
    ("streaming", "(text - self.num_sinks) % self.window", "text % self.window"),
    ("streaming", "| (text >= self.length - self.window)", "| (text > self.length - self.window)"),
    ("streaming", "        self.begin()\n        n = query.size(2)\n", "        n = query.size(2)\n"),
    ("streaming", "q, keys = rotary(q, at), rotary(keys, self.indices())", "q, keys = rotary(q, at), rotary(keys, torch.arange(keys.size(2)))"),
    ("streaming", "sizes = [fit] * (fit > 0) + [1] * (n - fit)", "sizes = [n]"),
    ("streaming", "if num_sinks < 0 or window < 1:", "if num_sinks < 0:"),
    ("streaming", "        self.check(key, value)\n", ""),
    ("sinks", "torch.maximum(scores.amax(dim=-1, keepdim=True), sink).detach()", "sink.detach()"),
    ("sinks", "torch.exp(sink - largest) + exponentials", "torch.exp(sink) + exponentials"),
    ("sinks", "torch.exp(sink - largest) + exponentials", "1 + exponentials"),
    ("sinks", "sink = sink[:, None, None]", "sink = sink[:, None, None].detach()"),
    ("sinks", "scores.new_zeros(scores.size(1))", "scores.new_ones(scores.size(1))"),
    ("sinks", "    if is_causal:\n", "    if is_causal and attn_mask is None:\n"),
    ("sinks", "requires_grad=learned", "requires_grad=True"),
    ("sinks", "            is_causal=is_causal,\n            dropout_p", "            dropout_p"),
    ("sinks", "torch.sigmoid(self.gate_proj(query))", "self.gate_proj(query)"),
    ("sinks", "merge_heads(heads) * torch.sigmoid(self.gate_proj(query))", "merge_heads(heads * torch.sigmoid(self.gate_proj(query)).view_as(heads))"),
    ("sinks", "F.dropout(weights, dropout_p) if dropout_p", "F.dropout(weights, dropout_p / 2) if dropout_p"),
    ("sinks", "largest.masked_fill(largest == -math.inf, 0.0)", "largest"),
    ("sinks", "query.device, offset)", "query.device)"),
    ("sinks", "total.masked_fill(total == 0, 1.0)", "total"),
    ("sinks", "torch.maximum(scores.amax(dim=-1, keepdim=True), sink).detach()", "scores.amax(dim=-1, keepdim=True).detach()"),
    ("sinks", "            dropout_p=self.dropout_p,\n", ""),
]  # fmt: skip
