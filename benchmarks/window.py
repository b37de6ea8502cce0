"""Windows against what else there is: time and memory of attention in a window, and tokens per second behind a cache.

    python benchmarks/window.py [window] [memory] [decode]

Time is CPU time of one thread, the best of interleaved repeats; memory is what torch's profiler saw. The library
local-attention is asked for the same window (its exact mode); it is installed by ``pip install -e ".[bench]"``.
"""

import sys
from functools import lru_cache

import torch
import torch.nn.functional as F
from flash import growth, passes, verdict
from peaks import PASSES, write_peaks
from results import write_table
from timing import best_seconds

from attncourse import KVCache, MultiHeadAttention, decode, masks
from attncourse.variants.rolling import RollingKVCache
from attncourse.variants.window import SlidingWindowAttention, sliding_window_attention

LEFT = 128  # neighbours before a query; causal
LENGTHS = (1024, 2048, 4096, 8192, 16384)
MASKED = 8192  # the longest sequence for which a table of n n pairs is made
TIME_GROWTH, MEMORY_GROWTH = 1.15, 1.1
FASTER = {"forward": 2.0, "forward and backward": 1.8}  # than local-attention, at MASKED
WIDTH, HEADS, POSITIONS, STEADY = 512, 16, (1024, 4096, 16384), 0.05


@lru_cache
def local_attention():
    """The library's function for the same window; there a window of 128 has 129 tokens, too."""
    from local_attention import LocalAttention

    layer = LocalAttention(
        LEFT, causal=True, look_backward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )
    return lambda q, k, v, _: layer(q, k, v)


def masked(q, k, v, _):
    """The window as a mask, made anew as it would be for a text of a new length."""
    n = q.size(2)
    visible = masks.dense(masks.sliding_window(LEFT, 0), 1, 1, n, n)
    return F.scaled_dot_product_attention(q, k, v, visible)


METHODS = {
    "blocks": lambda q, k, v, _: sliding_window_attention(q, k, v, (LEFT, 0)),
    "local-attention": lambda *inputs: local_attention()(*inputs),
    "a mask": masked,
    "no window": lambda q, k, v, _: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}


def made(length: int) -> dict:
    """Name -> (forward, forward and backward), on the same inputs, and equal where they should be."""
    found = {}
    for name, method in METHODS.items():
        if name != "a mask" or length <= MASKED:
            torch.manual_seed(0)
            found[name] = passes(method, length, True)
    torch.testing.assert_close(
        found["local-attention"][0](), found["blocks"][0](), rtol=1e-4, atol=1e-5
    )
    return found


def window_table() -> None:
    """One table for the forward pass, one with the backward pass."""
    for k, kind in enumerate(PASSES):
        seconds = {name: {} for name in METHODS}
        for length in LENGTHS:
            found = {name: pair[k] for name, pair in made(length).items()}
            best = best_seconds(*found.values(), repeats=8 - 4 * k)
            for name, least in zip(found, best, strict=True):
                seconds[name][length] = least
            print(kind, length, [f"{1e3 * s:.1f}" for s in best], flush=True)
        time_table(f"window_{kind.split()[-1]}", kind, seconds)


def time_table(file: str, kind: str, seconds: dict[str, dict[int, float]]) -> None:
    """Milliseconds of the blocks, and how many times as long the others take."""
    ours, *others = seconds.values()
    exponents = [round(growth(list(x), list(x.values())), 2) for x in seconds.values()]
    faster = round(seconds["local-attention"][MASKED] / ours[MASKED], 1)
    ratios = {n: [round(x[n] / ours[n], 1) if n in x else "–" for x in others] for n in LENGTHS}
    write_table(
        file,
        caption=f"Time of causal attention with a window of {LEFT} neighbours, {kind}",
        note=f"Float32, 4 heads of width 64, one thread, CPU time. An exponent of 1 means that twice the length takes twice "
        f"the time. For the blocks {verdict(exponents[0], TIME_GROWTH)}. At {MASKED:,} tokens local-attention is to take at "
        f"least {FASTER[kind]} times as long, and takes {faster} times.",
        columns=["length", "blocks, ms", *(f"{name}, times as long" for name in list(METHODS)[1:])],
        rows=[
            *([f"{n:,}", round(1e3 * ours[n], 1), *ratios[n]] for n in LENGTHS),
            ["exponent", *exponents],
        ],
    )  # fmt: skip


def memory_table(lengths=LENGTHS[:-1]) -> None:
    write_peaks(
        "window_memory",
        made,
        [name for name in METHODS if name != "no window"],
        lengths,
        caption=f"Memory of causal attention with a window of {LEFT} neighbours beyond its inputs, in MiB",
        ours="the blocks",
        limit=MEMORY_GROWTH,
    )


def step(layer, cache, position: int):
    """A function that decodes the token at this position; the cache is set back before every step."""
    cache.key.normal_(), cache.value.normal_()
    token = torch.randn(1, 1, WIDTH)

    def run():
        cache.length = position
        return decode(layer, token, cache)

    return run


def decode_table() -> None:
    """Tokens per second at three positions, with a cache that rolls and with one that grows."""
    torch.manual_seed(0)
    windowed, full = (
        SlidingWindowAttention(WIDTH, HEADS, (LEFT, 0)),
        MultiHeadAttention(WIDTH, HEADS),
    )
    steps, mebibytes = {}, {}
    for position in POSITIONS:
        for name, layer, cache in (
            ("rolling", windowed, RollingKVCache.of(windowed, 1, LEFT)),
            ("growing", full, KVCache.of(full, 1, position + 1)),
        ):
            steps[name, position] = step(layer, cache, position)
            mebibytes[name] = round(cache.nbytes / 2**20, 1)
    seconds = dict.fromkeys(steps, float("inf"))
    for _ in range(
        12
    ):  # turns of many steps in a row, as in decoding: what fits stays in the processor's cache
        for case, run in steps.items():
            seconds[case] = min(seconds[case], *best_seconds(run, repeats=25))
    ratios = {
        name: [round(seconds[name, POSITIONS[0]] / seconds[name, p], 2) for p in POSITIONS]
        for name in mebibytes
    }
    kept = abs(1 - ratios["rolling"][-1]) <= STEADY
    rates = {name: f"{1 / seconds[name, POSITIONS[0]]:,.0f}" for name in mebibytes}
    print(rates, ratios, flush=True)
    write_table(
        "window_decode",
        caption=f"Tokens per second while decoding, relative to position {POSITIONS[0]:,}",
        note=f"One layer, width {WIDTH}, {HEADS} heads, batch 1, float32, one thread, CPU time. At position {POSITIONS[0]:,} the "
        f"rolling cache makes {rates['rolling']} tokens/s and the growing one {rates['growing']}. Limit: the rolling cache within "
        f"{STEADY:.0%} at {POSITIONS[-1]:,}; it is {'kept' if kept else 'broken'}.",
        columns=["cache", *(f"position {p:,}" for p in POSITIONS), "MiB at the last"],
        rows=[
            [f"rolling, {LEFT + 1} tokens", *ratios["rolling"], mebibytes["rolling"]],
            ["growing, all tokens", *ratios["growing"], mebibytes["growing"]],
        ],
    )  # fmt: skip


SECTIONS = {"window": window_table, "memory": memory_table, "decode": decode_table}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
