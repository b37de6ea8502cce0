"""The library at its edges: one decoded token behind long caches, and half precision over long sequences.

    python benchmarks/edges.py [decode] [precision]

A decoded token is timed as in `decode.py`: CPU time of one thread, the cache set back before every step, the best of
interleaved steps.
"""

import math
import sys
from functools import partial

import torch
import torch.nn.functional as F
from flash import growth
from results import write_table
from timing import best_seconds

from attncourse import GroupedQueryAttention, MultiHeadAttention, decode, new_cache
from attncourse.variants.delta import DeltaAttention, GatedDeltaAttention, delta_rule
from attncourse.variants.differential import DifferentialAttention
from attncourse.variants.disentangled import DisentangledAttention
from attncourse.variants.gated import GatedLinearAttention, gated_linear_attention
from attncourse.variants.latent import LatentAttention
from attncourse.variants.linear import LinearAttention, linear_attention
from attncourse.variants.multi_token import MultiTokenAttention
from attncourse.variants.sinks import SinkAttention
from attncourse.variants.talking_heads import TalkingHeadsAttention
from attncourse.variants.window import SlidingWindowAttention

WIDTH, HEADS = 512, 8
CONTEXTS = (1024, 4096, 16384)
GROWTH = 1.1  # of the time of a token with the length of the cache
# The layers, what their time at the longest context is divided by, and how much it may be.
LAYERS = {
    "multi-head": (MultiHeadAttention(WIDTH, HEADS), "multi-head", None),
    "grouped-query, 2 heads": (GroupedQueryAttention(WIDTH, HEADS, 2), "multi-head", None),
    # 224 + 32 numbers a token, as many as two keys and values of 64
    "latent, absorbed": (
        LatentAttention(WIDTH, HEADS, 64, 224, 32), "grouped-query, 2 heads", 2.0,
    ),
    "sinks": (SinkAttention(WIDTH, HEADS), "multi-head", 1.2),
    "differential": (DifferentialAttention(WIDTH, HEADS), "multi-head", 2.2),
    "talking heads": (TalkingHeadsAttention(WIDTH, HEADS), "multi-head", None),
    "multi-token, 6 by 11": (MultiTokenAttention(WIDTH, HEADS), "multi-head", None),
    "disentangled, 256": (DisentangledAttention(WIDTH, HEADS, 256), "multi-head", None),
    "window of 128": (SlidingWindowAttention(WIDTH, HEADS, (128, 0)), "multi-head", None),
    "linear": (LinearAttention(WIDTH, HEADS), "multi-head", None),
    "gated delta": (GatedDeltaAttention(WIDTH, HEADS), "multi-head", None),
}  # fmt: skip

LENGTH, LIMITS = 4096, {torch.float16: 2e-3, torch.bfloat16: 2e-2}


def step(layer, context: int):
    """A function that decodes the last token of this context, over and over."""
    cache, x = new_cache(layer, 1, context), torch.randn(1, 1, WIDTH)
    options = {"absorbed": True} if isinstance(layer, LatentAttention) else {}
    decode(layer, torch.randn(1, 16, WIDTH), cache)  # so that there is a state
    for name in ("key", "value", "query"):
        if isinstance(kept := getattr(cache, name, None), torch.Tensor):
            kept.normal_()

    def run():
        cache.length = context - 1
        return decode(layer, x, cache, **options)

    return run


def decode_table() -> None:
    """Milliseconds of a decoded token, how they grow, and how many times as long as another layer's."""
    seconds = {}
    for context in CONTEXTS:
        runs = {name: step(layer, context) for name, (layer, _, _) in LAYERS.items()}
        seconds[context] = dict(zip(runs, best_seconds(*runs.values(), repeats=40), strict=True))
        print(context, {k: round(1e3 * x, 2) for k, x in seconds[context].items()}, flush=True)
    longest, rows, broken = CONTEXTS[-1], [], []
    for name, (_, other, limit) in LAYERS.items():
        times = [seconds[c][name] for c in CONTEXTS]
        exponent = growth(CONTEXTS, times)
        ratio = times[-1] / seconds[longest][other]
        if exponent > GROWTH or (limit and ratio > limit):
            broken.append(name)
        rows.append(
            [
                name,
                *(round(1e3 * x, 2) for x in times),
                round(exponent, 2),
                other,
                round(ratio, 2),
                limit or "–",
            ]
        )
    write_table(
        "edges_decode",
        caption="One decoded token behind caches of three lengths",
        note=f"Width {WIDTH}, {HEADS} heads, batch 1, float32, one thread, CPU time in ms. The exponent says how the time "
        f"grows from {CONTEXTS[0]:,} to {longest:,} tokens: 1 means that twice the cache takes twice the time, and {GROWTH} is "
        f"allowed. The last columns: times the time of which other layer at {longest:,}, and the limit. The limits are "
        f"{'broken: ' + ', '.join(broken) if broken else 'kept'}.",
        columns=["layer", *(f"{c:,}" for c in CONTEXTS), "exponent", "compared with", "ratio", "limit"],
        rows=rows,
    )  # fmt: skip


def functions():
    """Name -> (function, inputs in float64)."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, LENGTH, 32, dtype=torch.float64) for _ in range(3))
    unit, beta = F.normalize(k, dim=-1), torch.rand(1, 2, LENGTH, dtype=torch.float64)
    decay = -0.1 * torch.rand(1, 2, LENGTH, 32, dtype=torch.float64)
    return {
        "linear, causal": (partial(linear_attention, is_causal=True), (q, k, v)),
        "linear, both ways": (linear_attention, (q, k, v)),
        "gated, per head": (gated_linear_attention, (q, k, v, decay[..., 0])),
        "gated, per channel": (gated_linear_attention, (q, k, v, decay)),
        "delta": (delta_rule, (q, unit, v, beta)),
        "gated delta": (
            lambda *x: delta_rule(*x[:4], log_decay=x[4]), (q, unit, v, beta, decay[..., 0]),
        ),
    }  # fmt: skip


def relative_error(run, inputs, dtype) -> float:
    """What half precision changes beyond the rounding of the inputs, relative to the exact output's size."""
    rounded = [x.to(dtype) for x in inputs]
    exact = run(*(x.double() for x in rounded))
    return ((run(*rounded).double() - exact).norm() / exact.norm()).item()


def precision_table() -> None:
    rows, worst = [], dict.fromkeys(LIMITS, 0.0)
    for name, (run, inputs) in functions().items():
        errors = [relative_error(run, inputs, dtype) for dtype in LIMITS]
        worst = {d: max(worst[d], e) for d, e in zip(LIMITS, errors, strict=True)}
        rows.append([name, *(f"{e:.1e}" for e in errors)])
    for kind in (LinearAttention, GatedLinearAttention, DeltaAttention, GatedDeltaAttention):
        torch.manual_seed(0)
        layer, x = kind(64, 2), torch.randn(1, LENGTH, 64)
        options = {"is_causal": True}
        exact = layer(x, **options)
        errors = []
        for dtype in LIMITS:
            with torch.autocast("cpu", dtype), torch.no_grad():
                errors.append(((layer(x, **options).float() - exact).norm() / exact.norm()).item())
        rows.append([f"{kind.__name__}, autocast", *(f"{e:.1e}" for e in errors)])
    broken = [
        str(d).removeprefix("torch.")
        for d in LIMITS
        if worst[d] > LIMITS[d] or math.isnan(worst[d])
    ]
    write_table(
        "edges_precision",
        caption=f"Half precision over {LENGTH:,} tokens: the relative error of what reads a state",
        note="Against the same function in float64 of the same rounded inputs; the root of the sum of the squares. Limits of the "
        "functions: " + ", ".join(f"{x:g} in {str(d).removeprefix('torch.')}" for d, x in LIMITS.items()) + ", which are "
        f"{'broken: ' + ', '.join(broken) if broken else 'kept'}. Under autocast the projections are rounded as well, and no limit is set.",
        columns=["what", *(str(d).removeprefix("torch.") for d in LIMITS)],
        rows=rows,
    )  # fmt: skip


SECTIONS = {"decode": decode_table, "precision": precision_table}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
