"""Attention whose scores hear of their neighbours, and of other heads, among the variants."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module, qkv, some_pairs, variant, weighing
from support.cases.layers import attending, sequences
from support.mutants import MUTANTS

SMALL = {"n": 5, "m": 5, "d": 4, "e": 3}


def identity_kernel(heads: int, c_q: int, c_k: int):
    """1 where the kernel meets the pair itself, found by its place in the flat kernel."""
    kernel = torch.zeros(heads, c_q * c_k, dtype=torch.float64)
    kernel[:, -1 - c_k // 2] = 1
    return kernel.reshape(heads, c_q, c_k)


def multi_token(p, s, parts, limit, visible=None, **options):
    """A variant of `multi_token_attention`; ``parts`` are its kernels and matrices, by their names."""
    attend = module(p, "multi_token").multi_token_attention
    q, k, v = qkv(s)
    names = list(parts)

    def stored(q, k, v, *given, **more):
        return attend(q, k, v, **dict(zip(names, given, strict=True)), **options | more)

    def by_loops(q, k, v, *given):
        named = dict(zip(names, given, strict=True))
        return spec.multi_token_attention(q, k, v, **named, visible=visible)

    # A kernel of one row leaves the queries apart, so that an empty row is nobody else's matter.
    rows = parts["kernel"].size(1)
    apart = {} if rows == 1 else {"masked": None}
    return weighing(
        (q, k, v, *parts.values()), stored, spec=by_loops, limit=lambda: limit(attend, q, k, v),
        any_sum=any(name.endswith("_after") for name in names), more_rows=rows - 1,
        is_causal=options.get("is_causal", True), **apart,
        dropped=lambda *inputs: stored(*inputs, dropout_p=0.5),
    )  # fmt: skip


@variant("multi_token_attention", h=4, g=2, **SMALL)
def convolved(p, s):
    def identity(attend, q, k, v):
        full = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return attend(q, k, v, identity_kernel(s.h, 2, 3))[0], full

    return multi_token(p, s, {"kernel": draw((s.h, 2, 3))[0]}, identity)


@variant("multi_token_attention, all of it", **SMALL | {"m": 6})
def everything(p, s):
    def identities(attend, q, k, v):
        eye = torch.eye(s.h, dtype=torch.float64)
        kernel, kernel_after = identity_kernel(s.h, 2, 3), identity_kernel(s.h, 3, 1)
        options = {"kernel_after": kernel_after, "mix": eye, "mix_after": eye}
        return attend(q, k, v, kernel, **options)[0], attend(q, k, v, kernel)[0]

    kernel, kernel_after, before, after = draw((s.h, 2, 3), (s.h, 2, 5), (s.h, s.h), (s.h, s.h))
    parts = {"kernel": kernel, "kernel_after": kernel_after, "mix": before, "mix_after": after}
    return multi_token(p, s, parts, identities)


@variant("multi_token_attention, one row and bool mask", **SMALL | {"m": 7})
def one_row(p, s):
    visible = some_pairs(s.b, 1, s.n, s.m)

    def all_alike(attend, q, k, v):
        kernel = torch.ones(s.h, 1, 1, dtype=torch.float64)
        scores = {"attn_mask": visible, "is_causal": False, "scale": 0.3}
        by_torch = F.scaled_dot_product_attention(q, k, v, visible, scale=0.3)
        return attend(q, k, v, kernel, **scores)[0], by_torch

    options = {"attn_mask": visible, "is_causal": False}
    return multi_token(p, s, {"kernel": draw((s.h, 1, 3))[0]}, all_alike, visible, **options)


def layer_of(p, s, **options):
    """A layer whose kernels and matrices have been learned, so to speak."""
    torch.manual_seed(0)
    make = module(p, "multi_token").MultiTokenAttention
    layer = make(s.h * s.d, s.h, (2, 3), num_kv_heads=s.g, dropout=0.5, **options).double().eval()
    with torch.no_grad():
        if layer.norm is not None:
            layer.norm.weight.copy_(torch.linspace(0.5, 2.0, s.d))
        for name in ("kernel", "kernel_after", "mix", "mix_after"):
            if (part := getattr(layer, name)) is not None:
                part += draw(part.shape)[0]
    return layer


def layered(p, s, limit, normed=None, **options):
    """A variant of `MultiTokenAttention`; ``normed(layer, heads)`` is what its norm should make of the heads."""
    (x,) = sequences(s)
    layer = layer_of(p, s, **options)

    def joined(heads):
        heads = heads if normed is None else normed(layer, heads)
        return layer.out_proj(spec.merge_heads(heads))

    def by_loops(q, k, v):
        parts = (layer.kernel, layer.kernel_after, layer.mix, layer.mix_after)
        return spec.multi_token_attention(q, k, v, *parts)

    def dropped(x):
        return layer.train()(x, need_weights=True)

    more = {"masked": None, "is_causal": True, "any_sum": True, "more_rows": 1, "dropped": dropped}
    return attending(layer, x, limit, by_loops, joined=joined, **more)


@variant("MultiTokenAttention", h=4, g=2, n=5, d=4)
def multi_token_layer(p, s):
    def nothing_learned(_, x):
        make = module(p, "multi_token").MultiTokenAttention
        fresh = make(s.h * s.d, s.h, after=True, mix_heads=True)
        general = p.layers.CausalSelfAttention(s.h * s.d, s.h)
        general.load_state_dict(fresh.state_dict(), strict=False)
        return fresh.double()(x), general.double()(x)

    return layered(p, s, nothing_learned, after=True, mix_heads=True)


@variant("MultiTokenAttention, one kernel and norm", h=4, g=2, n=5, d=4)
def multi_token_layer_normed(p, s):
    def by_formula(layer, heads):
        large = (heads.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return (1 - (0.8 - 0.6 * math.exp(-0.3 * 2))) * heads / large * layer.norm.weight

    def twice_the_values(layer, x):
        """What was read is made equally large, so that it may as well be twice as large; but for the 1e-5."""
        small = layer(x)
        layer.norm.eps = 4e-5
        for part in layer.v_proj.parameters():
            part.data *= 2
        return layer(x), small

    return layered(p, s, twice_the_values, by_formula, norm="group", layer=2)


@variant("NeighbourCache", h=4, g=2, n=5, d=4)
def decoded_in_pairs(p, s):
    """What tokens read that come two by two, with two kernels: each hears of queries of the pair before."""
    plain = layered(p, s, None, after=True, mix_heads=True)

    def run(x):
        cache = p.decoding.new_cache(plain.layer, s.b, s.n)
        return torch.cat([p.decoding.decode(plain.layer, x, cache) for x in x.split(2, dim=1)], 1)

    limit = lambda: (run(*plain.inputs), plain.layer(*plain.inputs))  # noqa: E731
    return replace(plain, run=run, learns=False, fused=True, limit=limit, dropped=None)


MUTANTS += [
    ("multi_token", "if kernel.dim() != 3 or kernel.size(0) != table.size(1):", "if kernel.dim() != 3:"),
    ("multi_token", "padding = (rows - 1, columns // 2)", "padding = (0, columns // 2)"),
    ("multi_token", "padding = (rows - 1, columns // 2)", "padding = (columns // 2, rows - 1)"),
    ("multi_token", "[:, :, : table.size(2)]", "[:, :, -table.size(2) :]"),
    ("multi_token", "kernel[:, None], padding", "kernel.flip(-1)[:, None], padding"),
    ("multi_token", "kernel[:, None], padding", "kernel.flip(-2)[:, None], padding"),
    ("multi_token", "convolve(_set_to_0(scores, hidden), kernel)", "convolve(scores, kernel)"),
    ("multi_token", "score(fold_heads(query, g), key, scale), h)", "score(fold_heads(query, g), key), h)"),
    ("multi_token", "query.device, offset)", "query.device)"),
    ("multi_token", "    check_sequences(query, key, value, shared_heads=True)\n", ""),
    ("multi_token", "F.dropout(weights, dropout_p) if", "F.dropout(weights) * 0.5 if"),
    ("multi_token", "    attn_mask = _surely_hidden(attn_mask)\n", ""),
    ("multi_token", "HIDES = -1e8", "HIDES = -1e4"),
    ("multi_token", "HIDES = -1e8", "HIDES = -1e10"),
    ("multi_token", "max(HIDES, torch.finfo(attn_mask.dtype).min)", "HIDES"),
    ("multi_token", "max(HIDES, torch.finfo(attn_mask.dtype).min)", "torch.finfo(attn_mask.dtype).min"),
    ("multi_token", "table.movedim(1, -1).contiguous().movedim(-1, 1)", "table.to(memory_format=torch.channels_last)"),
    ("multi_token", "sum(x.size(1) - 1 for x in", "sum(x.size(1) - 2 for x in"),
    ("multi_token", "kernels = self.kernel, self.kernel_after", "kernels = (self.kernel,)"),
    ("multi_token", "            offset=offset,\n", ""),
    ("multi_token", "decodes(MultiTokenAttention, NeighbourCache.of)(decode_with_neighbours)", ""),
    ("multi_token", "decodes(MultiTokenAttention, NeighbourCache.of)", "decodes(MultiTokenAttention)"),
    ("multi_token", '    one_sequence = "its kernel', '    other = "its kernel'),
    ("multi_token_cache", "self.query.size(2) - self.rows) :]", "self.query.size(2) - self.rows + 1) :]"),
    ("multi_token_cache", "torch.cat([before, query.detach()", "torch.cat([query[:, :, :0], query.detach()"),
    ("multi_token_cache", "super().nbytes + self.query.nbytes", "super().nbytes"),
    ("multi_token_cache", "kept < min(self.rows, length)", "kept < 0"),
    ("multi_token_cache", "kept < min(self.rows, length)", "kept < self.rows"),
    ("multi_token_cache", "self.query = self.query[:, :, :kept]", "pass"),
    ("multi_token_cache", "        self.query = self.query[rows]", "        pass"),
    ("multi_token_cache", "cache.positions(n) if use_rotary else None", "None"),
    ("multi_token_cache", "cache.visible(), True", "None, True"),
    ("multi_token_cache", "True, offset=offset)", "True, offset=keys.size(2) - n)"),
    ("multi_token_cache", "    if not isinstance(cache, NeighbourCache):", "    if False:"),
    ("multi_token_cache", "kept.to(query.dtype)", "kept"),
    ("multi_token", "scores = mix_heads(scores, mix)", "scores = mix_heads(scores, mix.mT)"),
    ("multi_token", "normalize(mask(scores, attn_mask))", "normalize(scores)"),
    ("multi_token", "_set_to_0(convolve(weights, kernel_after), hidden)", "convolve(weights, kernel_after)"),
    ("multi_token", "_set_to_0(convolve(weights, kernel_after), hidden)", "_set_to_0(convolve(weights, kernel), hidden)"),
    ("multi_token", "weights = mix_heads(weights, mix_after)", "weights = mix_heads(weights, mix)"),
    ("multi_token", "add_causal(attn_mask, query.size(2),", "add_causal(None, query.size(2),"),
    ("multi_token", "kernel[:, -1, kernel_size[1] // 2] = 1.0", "kernel[:, 0, kernel_size[1] // 2] = 1.0"),
    ("multi_token", "kernel_after=self.kernel_after", "kernel_after=None"),
    ("multi_token", "nn.Parameter(kernel.clone()) if after", "self.kernel if after"),
    ("multi_token", "mix_after=self.mix_after", "mix_after=self.mix"),
    ("multi_token", "nn.Parameter(no_mixing.clone()) if mix_heads", "self.mix if mix_heads"),
    ("multi_token", "mix=self.mix,", "mix=None,"),
    ("multi_token", "            attn_mask=attn_mask,\n", ""),
    ("multi_token", "(1 - self.lambda_init) * normed(heads, self.norm)", "normed(heads, self.norm)"),
    ("multi_token", "nn.RMSNorm(embed_dim // num_heads, eps=1e-5) if norm", "nn.RMSNorm(embed_dim // num_heads) if norm"),
    ("multi_token", "self.lambda_init = lambda_init(layer)", "self.lambda_init = lambda_init(0)"),
    ("multi_token", "if norm not in (None, \"group\"):", "if norm == \"\":"),
    ("multi_token", "            dropout_p=self.dropout_p,\n", ""),
    ("multi_token_cache", "query.detach().to(before.dtype)", "query.to(before.dtype)"),
]  # fmt: skip
