"""Attention of neighbours among the variants: the function and the layer."""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, module, qkv, some_pairs, variant
from support.cases.layers import layered, same_as, sequences
from support.cases.oracles import flex
from support.mutants import MUTANTS


def ends_hidden(b: int, m: int) -> torch.Tensor:
    """Padding: on the left of sample 0, on the right of sample 1; a token is left in any case."""
    present = torch.ones(b, m, dtype=torch.bool)
    present[0, : m // 3] = present[1, max(1, m - 1) :] = False
    return present


def windowed(p, s, left, right, limit, is_causal=False, **options):
    """A variant of `sliding_window_attention`; with few queries all of them stand in one block."""
    q, k, v = qkv(s)
    shared, offset = {"enable_gqa": s.g < s.h}, options.get("offset", 0)
    attend = module(p, "window").sliding_window_attention
    run = partial(attend, window_size=(left, right), **shared, **options)
    visible = spec.sliding_window(s.n, s.m, left, right, offset)
    rule = p.masks.sliding_window(left, right)
    if "key_mask" in options:
        visible = visible & options["key_mask"][:, None, None]
        rule = p.masks.all_of(rule, p.masks.present(options["key_mask"]))
    return Variant(
        inputs=(q, k, v),
        run=run,
        spec=lambda q, k, v: spec.grouped_query_attention(q, k, v, visible),
        limit=lambda: limit(run, q, k, v),
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible, **shared),
        flex=partial(flex, mask_mod=lambda b, h, i, j: rule(b, h, i + offset, j), **shared),
        is_causal=is_causal,
        fused=True,
    )


def full(run, q, k, v):
    """A window as long as the sequence is no window."""
    return run(q, k, v, window_size=(99, 99)), F.scaled_dot_product_attention(q, k, v)


@variant("sliding_window_attention", n=7, m=5)
def both_sides(p, s):
    return windowed(p, s, 2, 1, full)


@variant("sliding_window_attention, causal", h=6, g=2)
def causal(p, s):
    def limit(run, q, k, v):
        plain = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return run(q, k, v, window_size=(s.n, 0)), plain

    return windowed(p, s, 2, 0, limit, is_causal=True)


@variant("sliding_window_attention, causal, ends aligned")
def aligned(p, s):
    def limit(run, q, k, v):  # the last query reads everything
        last = F.scaled_dot_product_attention(q[:, :, -1:], k, v)
        return run(q, k, v, window_size=(s.m, 0))[:, :, -1:], last

    return windowed(p, s, 2, 0, limit, offset=s.m - s.n)


@variant("sliding_window_attention, padding", h=6, g=2)
def padded(p, s):
    present = ends_hidden(s.b, s.m)

    def limit(run, q, k, v):
        mask = present[:, None, None]
        plain = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return run(q, k, v, window_size=(99, 99)), plain

    return windowed(p, s, 1, 2, limit, key_mask=present)


@variant("dilated_attention", h=6, g=2, n=7, m=11)
def with_gaps(p, s):
    q, k, v = qkv(s)
    present, offset, step = ends_hidden(s.b, s.m), s.m - s.n, 3
    dilated = partial(module(p, "dilated").dilated_attention, offset=offset, enable_gqa=True)
    run = partial(dilated, window_size=(2, 1), step=step, key_mask=present)
    visible = spec.dilated(offset + s.n, s.m, 2, 1, step)[offset:] & present[:, None, None]
    rule = p.masks.all_of(p.masks.dilated(2, 1, step), p.masks.present(present))

    def limit():
        window = module(p, "window").sliding_window_attention
        options = {"offset": offset, "enable_gqa": True}
        return dilated(q, k, v, (2, 1), 1), window(q, k, v, (2, 1), **options)

    return Variant(
        inputs=(q, k, v),
        run=run,
        spec=lambda q, k, v: spec.grouped_query_attention(q, k, v, visible),
        limit=limit,
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible, enable_gqa=True),
        flex=partial(flex, mask_mod=lambda b, h, i, j: rule(b, h, i + offset, j), enable_gqa=True),
        fused=True,
    )


@variant("SlidingWindowAttention", m=5, d=4)
def layer_both_sides(p, s):
    (x,) = sequences(s)
    layer = module(p, "window").SlidingWindowAttention(s.h * s.d, s.h, 3, dropout=0.5)

    def wide_enough(layer, out):
        layer.window_size = (s.n, s.n)
        return same_as(p, s, {}, x)(layer, layer(x))

    return layered(s, layer, [x], wide_enough, spec.sliding_window(s.n, s.n, 1, 1))


@variant("SlidingWindowAttention, causal and bool mask", m=5, d=4)
def layer_causal(p, s):
    (x,) = sequences(s)
    layer = module(p, "window").SlidingWindowAttention(s.h * s.d, s.h, (2, 1), dropout=0.5)
    mask = some_pairs(s.b, 1, s.n, s.n) | torch.eye(s.n).bool()
    options = {"is_causal": True, "attn_mask": mask}
    visible = mask & spec.sliding_window(s.n, s.n, 2, 0)

    def everything_visible(layer, _):
        return layer(x, is_causal=True, attn_mask=torch.ones_like(mask)), layer(x, is_causal=True)

    return layered(s, layer, [x], everything_visible, visible, **options)


@variant("DilatedAttention", n=11, m=11, d=4)
def layer_with_gaps(p, s):
    (x,) = sequences(s)
    layer = module(p, "dilated").DilatedAttention(s.h * s.d, s.h, (2, 1), 3, dropout=0.5)

    def no_gaps(layer, _):
        layer.step = 1
        window = module(p, "window").SlidingWindowAttention(s.h * s.d, s.h, (2, 1)).double()
        window.load_state_dict(layer.state_dict())
        return layer(x, is_causal=True), window(x, is_causal=True)

    return layered(s, layer, [x], no_gaps, spec.dilated(s.n, s.n, 2, 1, 3))


@variant("RollingKVCache", h=6, g=2, n=5, m=5)
def cached(p, s):
    """What single tokens read, one after the other; the first of them make room for the last."""

    def run(q, k, v, window=2):
        options = {"value_dim": v.size(3), "dtype": v.dtype}
        cache = module(p, "rolling").RollingKVCache(s.b, s.g, window, s.d, **options)
        parts = zip(*(x.split(1, dim=2) for x in (q, k, v)), strict=False)
        return torch.cat([cache.attend(*part) for part in parts], dim=2)

    plain = windowed(p, s, 2, 0, full, is_causal=True)
    causal = partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    limit = lambda: (run(*plain.inputs, window=s.n), causal(*plain.inputs))  # noqa: E731
    return replace(plain, run=run, learns=False, limit=limit)


MUTANTS += [
    ("dilated", "window = left, 0 if is_causal else right", "window = left, right"),
    ("dilated", "window = left, 0 if is_causal else right", "window = right, 0 if is_causal else left"),
    ("dilated", 'self.step = pair(window_size), whole("step", step)', "self.step = pair(window_size), 2"),
    ("dilated", "        dilated(*self.window_size, self.step)  # it", "        # it"),
    ("dilated", "    dilated(0, 0, step)  # it", "    # it"),
    ("dilated", "first = (start - offset) % step", "first = start"),
    ("dilated", '"offset": (first + offset) // step', '"offset": first // step'),
    ("dilated", "real[:, start::step]", "real[:, : key[:, :, start::step].size(2)]"),
    ("dilated", "torch.cat(order).argsort()", "torch.cat(order)"),
    ("dilated", "if first >= n:", "if False:"),
    ("dilated", "if start >= key.size(2):", "if False:"),
    ("dilated", "if need_weights or not padding_alone(attn_mask):", "if need_weights or attn_mask is not None:"),
    ("dilated", '"offset": offset, "key_mask"', '"key_mask"'),
    ("dilated", 'options["dropout_p"] = self.dropout_p', 'options["dropout_p"] = 0.0'),
    ("interface", "return operator.index(x)", "return int(x)"),
    ("masks", '    left, right = whole("left", left), whole("right", right)\n', ""),
    ("masks", "(kv_idx >= q_idx - left)", "(kv_idx > q_idx - left)"),
    ("masks", "(kv_idx <= q_idx + right)", "(kv_idx < q_idx + right)"),
    ("masks", "if left < 0 or right < 0:", "if left + right < 0:"),
    ("masks", "near = sliding_window(left * step, right * step)", "near = sliding_window(left, right)"),
    ("masks", "(kv_idx - q_idx) % step == 0", "kv_idx % step == 0"),
    ("masks", "if step < 1:", "if step < 0:"),
    ("window", "first = block * ROWS + offset", "first = block * ROWS"),
    ("window", "neighbours(first - left, ", "neighbours(first - left + 1, "),
    ("window", "first + ROWS - 1 + right", "first + ROWS - 2 + right"),
    ("window", "first - near.start * ROWS\n", "first % ROWS\n"),
    ("window", "if shape not in made:", "if not made:"),
    ("window", "near.start * ROWS : near.stop * ROWS]", ": k.size(2)]"),
    ("window", "if real is not None:", "if False:"),
    ("window", "min(max(first // ROWS, 0), count - 1)", "max(first // ROWS, 0)"),
    ("window", "max(last // ROWS, start) + 1", "last // ROWS + 1"),
    ("window", "max(last // ROWS, start) + 1", "count"),
    ("window", "torch.cat(keys[near], dim=2), torch.cat(values[near], dim=2)", "(x[:, :, near.start * ROWS : near.stop * ROWS] for x in (key, value))"),
    ("window", '{"scale": scale, "enable_gqa"', '{"enable_gqa"'),
    ("window", '"dropout_p": dropout_p}', '"dropout_p": 0.0}'),
    ("window", 'half = whole("window_size", window_size) // 2', 'half = -(-whole("window_size", window_size) // 2)'),
    ("window", 'half = whole("window_size", window_size) // 2', "half = int(window_size // 2)"),
    ("window", "or len(window_size) != 2:", "or len(window_size) < 2:"),
    ("window", "0 if is_causal else right", "right"),
    ("window", "dropout_p=self.dropout_p", "dropout_p=0.0"),
    ("window", "dropout_p=self.dropout_p", "dropout_p=self.dropout"),
    ("window", "attn_mask & visible if", "attn_mask if"),
    ("window", "else mask(attn_mask, visible)", "else attn_mask"),
    ("window", "if need_weights or not padding_alone(attn_mask):", "if need_weights or attn_mask is not None:"),
    ("window", "attn_mask.shape[1:3] == (1, 1)", "attn_mask.shape[2] == 1"),
    ("window", "attn_mask.shape[:-1] == (1,)", "attn_mask.dim() == 2"),
    ("window", "and {*samples[1:]} <= {1}", ""),
    ("window", "samples[:1] in ([], [1], [b])", "True"),
    ("window", "keys == m and", ""),
    ("window", "key_mask.reshape(-1, m).expand(b, m)", "key_mask.reshape(-1, m)[:1].expand(b, m)"),
    ("rolling", "window + 1, head_dim", "window, head_dim"),
    ("rolling", "tokens % size,", "tokens % (size - 1),"),
    ("rolling", "tokens = self.positions(key.size(2))[-size:]", "tokens = self.positions(key.size(2))[:size]"),
    ("rolling", "key[:, :, -size:], value", "key[:, :, :size], value"),
    ("rolling", "else present[:, -size:]", "else present[:, :size]"),
    ("rolling", "self.length += key.size(2)", "self.length = min(size, self.length + key.size(2))"),
    ("rolling", "self.check(key, value)", "pass"),
    ("rolling", "first = max(0, self.length - self.max_length)", "first = max(0, self.length - self.window)"),
    ("rolling", "self.length, device=self.key.device) % self.max_length", "self.length, device=self.key.device).clamp(max=self.max_length - 1)"),
    ("rolling", "if n == 1:", "if n >= 1:"),
    ("rolling", "if n == 1:", "if False:"),
    ("rolling", '"offset": k.size(2) - n', '"offset": 0'),
    ("rolling", '"key_mask": real}', '"key_mask": None}'),
    ("rolling", "positions = self.positions(n)", "positions = torch.arange(n)"),
    ("rolling", "self.begin()", "pass"),
    ("rolling", "old.to(new.device)[:, self._slots()]", "old.to(new.device)[:, : len(self._slots())]"),
    ("rolling", "cache.window == left", "True"),
    ("rolling", "isinstance(cache, RollingKVCache) and cache.window == left", "cache.max_length > left"),
    ("rolling", "RollingKVCache.of(layer, batch, pair(layer.window_size)[0])", "RollingKVCache.of(layer, batch, max_length)"),
    ("dilated", "self.step), q, k, attn_mask, offset)", "self.step), q, k, attn_mask)"),
    ("window", "sliding_window(*window), q, k, attn_mask, offset)", "sliding_window(*window), q, k, attn_mask)"),
    ('window', '"enable_gqa": shared, "offset": offset, "key_mask": attn_mask}', '"enable_gqa": shared, "key_mask": attn_mask}'),
]  # fmt: skip
