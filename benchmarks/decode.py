"""One decoding step of one layer: how many tokens per second with which cache.

    python benchmarks/decode.py

Width 512, 16 heads, batch 1, float32, one thread, CPU time. A step projects one new token, appends its key
and value and attends to everything. The cache is set back before every step, so that all steps of a
case do the same work. The cases take turns, and a turn is several steps in a row: while decoding, the step
before was one of the same kind, and what fits into the processor's own cache is still there.
"""

import torch
import torch.nn.functional as F
from results import write_table
from timing import best_seconds

from attncourse import (
    GroupedQueryAttention,
    KVCache,
    MultiHeadAttention,
    MultiQueryAttention,
    decode,
    merge_heads,
)

WIDTH, HEADS = 512, 16
CONTEXTS = (512, 2048, 8192)
TURNS, STEPS = 12, 25  # the best step of all turns counts
RECOMPUTED = 512  # tokens; the only context at which the row without a cache is measured
LIMITS = {"GQA-4": 4.0, "MQA": 6.0, "recomputing": 30.0}  # the first two at the longest context


class GrowingCache(KVCache):
    """The cache that people write first: every step copies all of it into a longer tensor."""

    def append(self, key, value):
        return torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)


@torch.no_grad()
def decode_repeating(layer, x, cache):
    """`decode`, but every query head gets a copy of the keys and values of its group."""
    query, key, value = layer.project(x, x, x)
    copies = layer.num_heads // layer.num_kv_heads
    pair = [kept.repeat_interleave(copies, dim=1) for kept in cache.append(key, value)]
    return layer.out_proj(merge_heads(F.scaled_dot_product_attention(query, *pair)))


@torch.no_grad()
def recompute(layer, tokens):
    """The last row of a layer that keeps nothing."""
    return layer(tokens, is_causal=True)[:, -1:]


def filled(layer, tokens, kind=KVCache):
    """The cache behind all tokens but the last, and how to put it back there."""
    before = tokens.size(1) - 1
    cache = kind.of(layer, 1, before + (kind is KVCache))
    with torch.no_grad():
        _, key, value = layer.project(*[tokens[:, :-1]] * 3)
    cache.key[:, :, :before], cache.value[:, :, :before] = key, value
    cache.length = before
    return cache


def layers():
    torch.manual_seed(0)
    return {
        "MHA": MultiHeadAttention(WIDTH, HEADS),
        "GQA-4": GroupedQueryAttention(WIDTH, HEADS, 4),
        "GQA-2": GroupedQueryAttention(WIDTH, HEADS, 2),
        "MQA": MultiQueryAttention(WIDTH, HEADS),
    }


def steps(context: int) -> dict:
    """Name -> (cache, a function that decodes the token at this context), all checked."""
    found, tokens = {}, torch.randn(1, context, WIDTH)
    models = layers()

    def add(name, layer, step=decode, kind=KVCache):
        cache = filled(layer, tokens, kind)

        def run():
            cache.length = context - 1
            return step(layer, tokens[:, -1:], cache)

        torch.testing.assert_close(run(), recompute(layer, tokens), rtol=1e-3, atol=1e-4)
        found[name] = cache, run

    for name, layer in models.items():
        add(name, layer)
    add("MHA, torch.cat", models["MHA"], kind=GrowingCache)
    add("GQA-4, repeat_interleave", models["GQA-4"], decode_repeating)
    if context == RECOMPUTED:
        found["MHA, no cache"] = None, lambda: recompute(models["MHA"], tokens)
    return found


def main() -> None:
    torch.set_num_threads(1)
    rates, mebibytes = {}, {}
    for context in CONTEXTS:
        found = steps(context)
        seconds = dict.fromkeys(found, float("inf"))
        for _ in range(TURNS):
            for name, (_, run) in found.items():
                seconds[name] = min(seconds[name], *best_seconds(run, repeats=STEPS))
        for name, (cache, _) in found.items():
            rates[name, context] = 1 / seconds[name]
            mebibytes[name] = cache.nbytes / 2**20 if cache else 0
        print({name: round(rates[name, context]) for name in found}, flush=True)
    write(rates, mebibytes)


def write(rates: dict, mebibytes: dict) -> None:
    """The table: tokens per second relative to multi-head attention at the same context."""

    def ratio(name, context):
        return round(rates[name, context] / rates["MHA", context], 2)

    longest = CONTEXTS[-1]
    reached = {
        "GQA-4": ratio("GQA-4", longest),
        "MQA": ratio("MQA", longest),
        "recomputing": round(rates["MHA", RECOMPUTED] / rates["MHA, no cache", RECOMPUTED], 1),
    }
    broken = [name for name, limit in LIMITS.items() if reached[name] < limit]
    worst = min(LIMITS, key=lambda name: reached[name] / LIMITS[name])
    order = sorted(mebibytes, key=lambda name: list(NAMES).index(name))
    write_table(
        "decode",
        caption="Tokens per second of one layer while decoding, relative to multi-head attention",
        note=f"Width {WIDTH}, {HEADS} heads, batch 1, float32, one thread, CPU time. Above 1 is faster. MHA makes "
        + ", ".join(f"{rates['MHA', c]:,.0f} tokens/s at {c}" for c in CONTEXTS)
        + f". Limits at {longest}: GQA-4 {LIMITS['GQA-4']:g}, MQA {LIMITS['MQA']:g}; MHA with a cache is to be "
        f"{LIMITS['recomputing']:g} times as fast as recomputing at {RECOMPUTED} tokens and is "
        f"{reached['recomputing']:g} times as fast. The limits are "
        f"{'broken: ' + ', '.join(broken) if broken else 'kept'}; the worst is {worst} with {reached[worst]:g}.",
        columns=["keys and values", *(f"{c} tokens" for c in CONTEXTS), f"cache at {longest}, MiB"],
        rows=[
            [
                NAMES[name],
                *(ratio(name, c) if (name, c) in rates else "–" for c in CONTEXTS),
                round(mebibytes[name], 1),
            ]
            for name in order
        ],
    )


NAMES = {
    "MHA": "MHA: 16 key heads, preallocated",
    "MHA, no cache": "MHA, nothing kept, all recomputed",
    "MHA, torch.cat": "MHA, torch.cat at every step",
    "GQA-4": "GQA: 4 key heads",
    "GQA-4, repeat_interleave": "GQA: 4 key heads, copied by repeat_interleave",
    "GQA-2": "GQA: 2 key heads",
    "MQA": "MQA: 1 key head",
}


if __name__ == "__main__":
    main()
