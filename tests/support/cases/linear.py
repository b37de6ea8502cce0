"""Attention without a softmax among the variants."""

from dataclasses import replace
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
        general = p.shared_heads.GroupedQueryAttention(s.h * s.d, s.h, s.g).double()
        general.load_state_dict(layer.state_dict())
        with torch.no_grad():
            general.k_proj.weight.zero_()  # every score alike
        return flat(x, is_causal=True), general(x, is_causal=True)

    causal = {"is_causal": True}
    by_loops = partial(spec.linear_attention, **causal)
    more = {"fixed": causal, "masked": None, "fused": True}
    return attending(make(chunk=2).double(), x, equal_features, by_loops, **more)


@variant("causal_sums, only products", n=7, m=7)
def sums(p, s):
    def run(q, k, v):
        before = [torch.zeros(s.b, s.h, s.d, s.e, dtype=q.dtype)]
        return module(p, "chunks").causal_sums(q, k, v, False, before, 3)[0][0]

    def stored(q, k, v):
        weights = (q @ k.mT).tril()
        return weights @ v, weights

    as_they_are = {"is_causal": True, "normalize": False, "feature_map": lambda x: x}
    q, k, v = qkv(s)
    return Variant(
        (q, k, v), run, partial(spec.linear_attention, **as_they_are), lambda: (run(q, k, v), stored(q, k, v)[0]),
        stored=stored, is_causal=True, any_sum=True, fused=True,
    )  # fmt: skip


@variant("random_features, linear_attention", m=7, d=4)
def random_both_ways(p, s):
    return random_variant(p, s, lambda s, v: v.mean(2, keepdim=True).expand(s.b, s.h, s.n, s.e))


@variant("random_features, linear_attention, causal", n=7, m=7, d=4)
def random_causal(p, s):
    return random_variant(
        p, s, lambda s, v: v.cumsum(2) / torch.arange(1, s.n + 1).view(-1, 1), is_causal=True
    )


def random_variant(p, s, mean, **options):
    """Features that are scaled, against logarithms."""
    q, k, v = qkv(s)
    features = module(p, "features").random_features(s.d, 9, torch.Generator().manual_seed(0))
    linear, options = module(p, "linear"), options | {"feature_map": features}

    def stored(q, k, v):
        weights = linear.linear_weights(q, k, **options)
        return mix(weights, q, k, v), weights

    def by_loops(q, k, v):
        causal = options.get("is_causal", False)
        return spec.random_feature_attention(q, k, v, features.directions, is_causal=causal)

    run = partial(linear.linear_attention, chunk=2, **options)
    return Variant(
        (q, k, v), run, by_loops, lambda: (run(q, 0 * k, v), mean(s, v)), stored=stored,
        is_causal=options.get("is_causal", False), fused=True,
    )  # fmt: skip


@variant("LinearCache, token by token", h=6, g=2, n=5, m=5, d=4)
def token_by_token(p, s):
    whole = layer(p, s)

    def run(x):
        cache = module(p, "state_cache").LinearCache(whole.layer)
        return torch.cat([cache.advance(token) for token in x.split(1, dim=1)], dim=1)

    def at_once():
        (x,) = whole.inputs
        return module(p, "state_cache").LinearCache(whole.layer).advance(x), whole.run(x)

    return replace(whole, run=run, stored=None, masked=None, learns=False, limit=at_once)


MUTANTS += [
    ("features", "x.clamp(max=0).exp_().add_(F.relu(x))", "x.clamp(max=0).expm1_().add_(F.relu(x)) + 1"),
    ("features", "x.clamp(max=0).exp_().add_(F.relu(x))", "x.clamp(max=0).exp_().add_(x)"),
    ("features", "x.clamp(max=0).exp() + F.relu(x)", "x.clamp(max=0).exp() + x.clamp(min=0)"),
    ("features", "gradient * ctx.saved_tensors[0].clamp(max=1)", "gradient * ctx.saved_tensors[0]"),
    ("features", "/ self.head_dim**0.25", "/ self.head_dim**0.5"),
    ("features", "keepdim=True) / 2", "keepdim=True)"),
    ("features", "math.log(self.features) / 2", "math.log(self.features)"),
    ("features", ".flatten(0, 1)[:features] * lengths", ".flatten(0, 1)[:features]"),
    ("features", " * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]", ""),
    ("features", 'self.register_buffer("directions", directions)', "self.directions = directions"),
    ("features", "return features_of(feature_map, query), features_of", "return query, features_of"),
    ("features", "features if hidden is None else features.masked_fill(hidden, 0.0)", "features"),
    ("features", "queries.detach().amax(dim=-1, keepdim=True)", "queries.detach().amax()"),
    ("features", "keys = keys.masked_fill(hidden, -math.inf)", "keys = keys + 0.0"),
    ("features", "(keys - largest.amax(dim=-1)[..., None, None]).exp()", "(keys - largest[..., None]).exp()"),
    ("features", "largest.cummax(dim=-1).values", "largest"),
    ("features", "largest[..., :-1] - largest[..., 1:], (1, 0))", "largest[..., :-1] - largest[..., 1:], (0, 1))"),
    ("features", "    if not is_causal:\n        return queries", "    if True:\n        return queries"),
    ("features", "return torch.where(padding, smallest, largest)", "return largest"),
    ("features", "x.to(own.dtype)", "x"),
    ("linear", "weights = weights.tril()", "weights = weights.tril(-1)"),
    ("linear", "weights = weights * decay_between(fading.cumsum(-1)[..., None])[..., 0]", "weights = weights * 1.0"),
    ("linear", "state is None and not return_state and hasattr", "hasattr"),
    ("linear", "counted = torch.cat([value, torch.ones_like(value[..., :1])]", "counted = torch.cat([value, torch.zeros_like(value[..., :1])]"),
    ("linear", "zip(parts, written(keys, v, normalize), strict=True)", "zip(parts[:0], written(keys, v, normalize)[:0], strict=True)"),
    ("chunks", "keys.sum(dim=-2)[..., None]", "keys.mean(dim=-2)[..., None]"),
    ("chunks", "inside = (queries @ keys.mT).tril_()", "inside = queries @ keys.mT"),
    ("chunks", "inside = (queries @ keys.mT).tril_()", "inside = (queries @ keys.mT).tril_(-1)"),
    ("chunks", "inside.sum(dim=-1, keepdim=True)", "inside.sum(dim=-2, keepdim=True).mT"),
    ("chunks", "x.add_(queries @ start)", "x.add_(0 * (queries @ start))"),
    ("chunks", "else -n % chunk", "else 0"),
    ("chunks", "several = exported or n > chunk", "several = exported"),
    ("chunks", "tuple(map(torch.add, before, added))", "tuple(added)"),
    ("chunks", "(n // chunk + 2) * chunk - n", "(n // chunk + 2) * chunk"),
    ("chunks", "return sums[:, :, :-1], sums[:, :, -1]", "return sums[:, :, 1:], sums[:, :, -1]"),
    ("chunks", "*starts, after = accumulate(added.unbind(dim=2), initial=before)", "before, *starts = accumulate(added.unbind(dim=2), initial=before)\n    after = starts[-1]"),
    ("linear", "        if self.dropout:\n", "        if self.dropout > 1:\n"),
    ("linear", "        if mask is not None:\n", "        if mask is False:\n"),
    ("linear", "offset=offset or None", "offset=None"),
    ("linear", "    if chunk < 1:\n", "    if chunk < 0:\n"),
    ("linear", "if is_causal and query.size(2) != key.size(2):", "if False:"),
    ("linear", "check_sequences(query, key, value, shared_heads=True)", "pass"),
    ("linear", "read = _in_order if is_causal else _all_by_all", "read = _in_order"),
    ("linear", "queries, keys, _ = paired_features(feature_map, q, k, gone)", "queries, keys, _ = paired_features(feature_map, q, k)"),
    ("linear", "keys = features_of(feature_map, k, gone)", "keys = features_of(feature_map, k)"),
    ("linear", "_parts(state, keys, v, normalize) if parts is None else parts\n        read", "_parts(state, keys, v, normalize)\n        read"),
    ("linear", "_parts(state, keys, v, normalize) if parts is None else parts\n        parts", "_parts(state, keys, v, normalize)\n        parts"),
    ("chunks", "size = max(BLOCK // chunk, 1) * chunk", "size = 7"),
    ("chunks", "BLOCK = 512", "BLOCK = 1 << 30"),
    ("linear", '"is_causal": True, "key_mask": present', '"key_mask": present'),
    ("linear", '"is_causal": True, "key_mask": present', '"is_causal": True'),
    ("linear", "state=state, return_state=True, **options", "state=None, return_state=True, **options"),
    ("linear", "            normalize=self.normalize,\n            chunk", "            chunk"),
    ("linear", "            chunk=self.chunk,\n", ""),
    ("linear", "total.masked_fill(total == 0, 1.0)", "total"),
    ("linear", "    if state.shape != wanted:\n", "    if False:\n"),
    ("state_cache", "isinstance(cache, LinearCache) and cache.layer is layer", "isinstance(cache, LinearCache)"),
    ("state_cache", "isinstance(cache, LinearCache) and cache.layer is layer", "cache.length == 0"),
    ("state_cache", "torch.arange(self.length, self.length + n", "torch.arange(0, n"),
    ("state_cache", "self.length, self.last = self.length + n, last", "self.length, self.last = n, last"),
    ("state_cache", "self.layer.advance(x, self.state, positions, present)", "self.layer.advance(x, None, positions, present)"),
    ("state_cache", "self.layer.advance(x, self.state, positions, present)", "self.layer.advance(x, self.state, positions)"),
    ("state_cache", "x if n <= self.drafts else None", "x"),
    ("state_cache", "        if tokens is not None and (stay := length - start):\n", "        if tokens is not None and (stay := 0):\n"),
    ("state_cache", "_each(present, slice(None), slice(stay))", "None"),
    ("state_cache", "stay], use_rotary,", "stay], False,"),
    ("state_cache", "        self.state = _each(self.state, rows)\n", ""),
    ("state_cache", 'for x in ("state", "tokens", "present")', 'for x in ("state", "present")'),
    ("state_cache", "sum(x.nbytes for x in _tensors(self.state))", "sum(x.numel() for x in _tensors(self.state))"),
    ("precision", "dtypes, torch.float32)", "dtypes)"),
    ("precision", "return result[0].to(query.dtype), *result[1:]", "return result"),
    ("precision", "        return result.to(query.dtype)\n", "        return result\n"),
    ("precision", "return torch.autocast(device, enabled=False)", "return nullcontext()"),
    ("precision", "options = {name: x.to(widest) if _is_float(x) else x for name, x in options.items()}", "pass"),
    ("precision", "x.to(torch.promote_types(x.dtype, torch.float32))", "x"),
    ("state_cache", "self.state, self.last = state, None", "self.last = None"),
]  # fmt: skip
