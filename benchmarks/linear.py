"""Linear attention against what else there is: time, memory, tokens per second; and chunks against single tokens.

    python benchmarks/linear.py [time] [memory] [decode] [delta]

Time is CPU time of one thread, the best of interleaved repeats; memory is what torch's profiler saw. The library
fla is asked for the same function in its plain PyTorch form, the one that runs without a graphics card; it is installed by
``pip install -e ".[bench]"``.
"""

import importlib.util
import sys
from functools import lru_cache, partial
from pathlib import Path

import torch
import torch.nn.functional as F
from flash import growth, passes, verdict
from peaks import PASSES, write_peaks
from results import write_table
from timing import best_seconds

from attncourse import KVCache, MultiHeadAttention, decode
from attncourse.variants.delta import GatedDeltaAttention, delta_rule
from attncourse.variants.linear import LinearAttention, LinearCache, elu_plus_one, linear_attention

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
GROWING = LENGTHS[2:]  # the lengths of which the exponent is taken
TIME_GROWTH, MEMORY_GROWTH = 1.15, 1.1
LIBRARY, SOFTMAX, AT = (
    1.0,
    3.0,
    4096,
)  # times the library's time at most; softmax at least, at this length
WIDTH, HEADS, POSITIONS, STEADY = 512, 8, (1024, 8192, 65536), 0.05
PRODUCTS = 1.0  # of the time of two plain products, both ways
DELTA, TOKENS = 0.2, 2048
CHANNELS = 0.9  # of the time of fla's chunks, with a decay for each channel


@lru_cache
def library(rule: str):
    """A file of fla, without the package around it, which wants Triton."""
    package = importlib.util.find_spec("fla")
    path = Path(package.submodule_search_locations[0], "ops", rule, "naive.py")
    spec = importlib.util.spec_from_file_location(f"fla_{rule}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_fla(q, k, v, _):
    """The same features and the same sums; its axes are (batch, seq, heads, width)."""
    q, k, v = (x.transpose(1, 2) for x in (elu_plus_one(q), elu_plus_one(k), v))
    chunked = library("linear_attn").naive_chunk_linear_attn
    return chunked(q, k, v, scale=1.0, normalize=True).transpose(1, 2)


METHODS = {
    "chunks": lambda q, k, v, _: linear_attention(q, k, v, is_causal=True),
    "fla": in_fla,
    "softmax": lambda q, k, v, _: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}


def two_products(q, k, v):
    """What nobody can do without, both ways: features, two products, and the sums of weights."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.mT @ v)) / (q @ k.sum(dim=-2, keepdim=True).mT)


def both_ways(lengths=(4096, 16384)) -> str:
    """What `linear_attention` takes of the time of `two_products`, in words."""
    shares = []
    for length in lengths:
        q, k, v = torch.randn(3, 1, 4, length, 64)
        calls = partial(linear_attention, q, k, v), partial(two_products, q, k, v)
        torch.testing.assert_close(*(call() for call in calls), rtol=1e-3, atol=1e-4)
        ours, plain = best_seconds(*calls, repeats=9)
        shares.append(round(ours / plain, 2))
    kept = "kept" if max(shares) <= PRODUCTS else "broken"
    said = " and ".join(
        f"{share} at {length:,} tokens" for share, length in zip(shares, lengths, strict=True)
    )
    return f" Both ways, and forward, it takes of the time of its two products with F.elu + 1 {said}; at most {PRODUCTS} is allowed, which is {kept}."


def made(length: int) -> dict:
    """Name -> (forward, forward and backward), on the same inputs; ours and the library's are equal."""
    found = {}
    for name, method in METHODS.items():
        torch.manual_seed(0)
        found[name] = passes(method, length, True)
    torch.testing.assert_close(found["fla"][0](), found["chunks"][0](), rtol=1e-3, atol=1e-4)
    return found


def time_table() -> None:
    """One table for the forward pass, one with the backward pass."""
    for k, kind in enumerate(PASSES):
        seconds = {name: {} for name in METHODS}
        for length in LENGTHS:
            best = best_seconds(*(pair[k] for pair in made(length).values()), repeats=8 - 4 * k)
            for name, least in zip(METHODS, best, strict=True):
                seconds[name][length] = least
            print(kind, length, [f"{1e3 * s:.1f}" for s in best], flush=True)
        ours, fla, softmax = seconds.values()
        exponents = [round(growth(GROWING, [x[n] for n in GROWING]), 2) for x in seconds.values()]
        worst = round(max(ours[n] / fla[n] for n in GROWING), 2)
        faster = round(softmax[AT] / ours[AT], 1)
        crossing = next((n for n in LENGTHS if ours[n] < softmax[n]), None)
        write_table(
            f"linear_{kind.split()[-1]}",
            caption=f"Time of causal linear attention, {kind}",
            note=f"Float32, 4 heads of width 64, elu + 1, chunks of 64, one thread, CPU time. The exponent is taken from "
            f"{GROWING[0]:,} tokens on; 1 means that twice the length takes twice the time. For the chunks {verdict(exponents[0], TIME_GROWTH)}. "
            f"At most {LIBRARY} of fla's time is allowed, and at most {worst} was taken. Torch's fused softmax is to take at least "
            f"{SOFTMAX} times as long at {AT:,} tokens, and takes {faster} times; the first length at which it takes longer is {crossing:,}."
            + ("" if k else both_ways()),
            columns=["length", "chunks, ms", "fla, times as long", "softmax, times as long"],
            rows=[
                *(
                    [
                        f"{n:,}",
                        round(1e3 * ours[n], 1),
                        round(fla[n] / ours[n], 1),
                        round(softmax[n] / ours[n], 1),
                    ]
                    for n in LENGTHS
                ),
                ["exponent", *exponents],
            ],
        )  # fmt: skip


def memory_table(lengths=GROWING[:-1]) -> None:
    write_peaks(
        "linear_memory",
        made,
        list(METHODS),
        lengths,
        caption="Memory of causal linear attention beyond its inputs, in MiB",
        ours="the chunks",
        limit=MEMORY_GROWTH,
    )


def steps_of(layer, cache, position: int):
    """A function that decodes the token at this position, over and over."""
    token = torch.randn(1, 1, WIDTH)

    def run():
        cache.length = position
        return decode(layer, token, cache)

    return run


def decode_table() -> None:
    """Tokens per second at three positions, with a state and with a cache of all tokens."""
    torch.manual_seed(0)
    layers = {
        "linear attention": LinearAttention(WIDTH, HEADS),
        "gated delta rule": GatedDeltaAttention(WIDTH, HEADS),
        "softmax": MultiHeadAttention(WIDTH, HEADS),
    }
    steps, mebibytes = {}, {}
    for position in POSITIONS:
        for name, layer in layers.items():
            if name == "softmax":
                cache = KVCache.of(layer, 1, position + 1)
                cache.key.normal_(), cache.value.normal_()
            else:
                cache = LinearCache(layer)
                decode(layer, torch.randn(1, 8, WIDTH), cache)  # so that there is a state
            steps[name, position] = steps_of(layer, cache, position)
            mebibytes[name] = round(cache.nbytes / 2**20, 2)
    seconds = dict.fromkeys(steps, float("inf"))
    for _ in range(12):  # turns of many steps in a row, as in decoding
        for case, run in steps.items():
            seconds[case] = min(seconds[case], *best_seconds(run, repeats=15))
    first = POSITIONS[0]
    ratios = {
        name: [round(seconds[name, first] / seconds[name, p], 2) for p in POSITIONS]
        for name in layers
    }
    rates = {name: f"{1 / seconds[name, first]:,.0f}" for name in layers}
    print(rates, ratios, flush=True)
    uneven = max(abs(1 - ratio) for name in list(layers)[:2] for ratio in ratios[name])
    write_table(
        "linear_decode",
        caption=f"Tokens per second while decoding, relative to position {first:,}",
        note=f"One layer, width {WIDTH}, {HEADS} heads, batch 1, float32, one thread, CPU time. At position {first:,}: "
        + ", ".join(f"{name} {rate} tokens/s" for name, rate in rates.items())
        + f". Limit: with a state within {STEADY:.0%} everywhere; it is {'kept' if uneven <= STEADY else 'broken'}.",
        columns=["layer", *(f"position {p:,}" for p in POSITIONS), "MiB at the last"],
        rows=[[name, *ratios[name], mebibytes[name]] for name in layers],
    )  # fmt: skip


def channels(q, k, v, beta) -> tuple[dict[str, float], float]:
    """Name -> seconds with a decay for each channel, and our usual chunks' share of the time of fla's."""
    log_decay = -torch.rand(q.shape) / 4
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v, log_decay, beta)]
    calls = {
        "a decay for each channel, fla's chunks of 64": lambda: library("kda").naive_chunk_kda(*swapped)[0].transpose(1, 2)
    } | {
        f"a decay for each channel, chunks of {size}": partial(delta_rule, q, k, v, beta, log_decay=log_decay, chunk=size)
        for size in (16, 64)
    }  # fmt: skip
    theirs, *ours = (call() for call in calls.values())
    for out in ours:
        torch.testing.assert_close(out, theirs, rtol=1e-3, atol=1e-4)
    seconds = dict(zip(calls, best_seconds(*calls.values(), repeats=3), strict=True))
    theirs, usual, _ = seconds.values()
    return seconds, round(usual / theirs, 2)


def delta_table() -> None:
    """The gated delta rule: one token after the other, and chunks."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, TOKENS, 64) for _ in range(3))
    k, beta, log_decay = F.normalize(k, dim=-1), torch.rand(1, 4, TOKENS), -torch.rand(1, 4, TOKENS)
    fla = library("gated_delta_rule")
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v, beta, log_decay)]
    loop = lambda: fla.naive_recurrent_gated_delta_rule(*swapped)[0].transpose(1, 2)  # noqa: E731
    calls = {
        f"chunks of {size}": lambda size=size: delta_rule(
            q, k, v, beta, log_decay=log_decay, chunk=size
        )
        for size in (16, 32, 64, 128)
    }
    for call in calls.values():
        torch.testing.assert_close(call(), loop(), rtol=1e-3, atol=1e-4)
    alone, *chunked = best_seconds(loop, *calls.values(), repeats=4)
    usual = round(chunked[2] / alone, 3)
    kimi, share = channels(q, k, v, beta)
    print(alone, chunked, kimi, flush=True)
    write_table(
        "delta_chunks",
        caption=f"The gated delta rule over {TOKENS:,} tokens: one after the other, and in chunks",
        note=f"Forward, float32, 4 heads of width 64, one thread, CPU time. The loop is fla's plain PyTorch form. Limit: chunks of 64 "
        f"take at most {DELTA} of the loop's time; it is {'kept' if usual <= DELTA else 'broken'}. With a decay for each channel, chunks of 16 "
        f"take at most {CHANNELS} of the time of fla's chunks; they take {share}, and the limit is {'kept' if share <= CHANNELS else 'broken'}.",
        columns=["how", "ms", "of the loop's time"],
        rows=[
            ["one token after the other", round(1e3 * alone, 1), 1.0],
            *(
                [name, round(1e3 * seconds, 1), round(seconds / alone, 3)]
                for name, seconds in zip(calls | kimi, [*chunked, *kimi.values()], strict=True)
            ),
        ],
    )  # fmt: skip


SECTIONS = {
    "time": time_table,
    "memory": memory_table,
    "decode": decode_table,
    "delta": delta_table,
}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
