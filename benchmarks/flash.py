"""The tiled FlashAttention against torch's fused attention on the CPU: ratios of time, and peak memory.

    python benchmarks/flash.py

Time is CPU time of one thread, the best of interleaved repeats. Memory is the running sum of what
torch's profiler saw allocated and freed, which is the same on every run and every machine.
"""

import math

import torch
import torch.nn.functional as F
from results import write_table
from timing import best_seconds
from torch import Tensor

from attncourse import scaled_dot_product_attention
from attncourse.lab.memory import peak_bytes
from attncourse.variants.flash import flash_attention

LENGTHS = (512, 1024, 2048, 4096)
TIME_LIMIT = 2.0
GROWTH_LIMIT = 1.1


def tiled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    """`flash_attention` in plain PyTorch, which is what runs on a CPU."""
    return flash_attention(query, key, value, is_causal=is_causal, backend="tiled")


METHODS = {
    "tiled": tiled,
    "torch's": lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "five steps": lambda q, k, v, causal: scaled_dot_product_attention(q, k, v, is_causal=causal),
}


def passes(method, length: int, is_causal: bool):
    """The forward pass, and forward and backward, of one method on its own inputs: b=1 h=4 d=64."""
    inputs = [torch.randn(1, 4, length, 64) for _ in range(3)]
    learning = [x.clone().requires_grad_() for x in inputs]

    def forward():
        return method(*inputs, is_causal)

    def both():
        return torch.autograd.grad(method(*learning, is_causal).sum(), learning)

    return forward, both


def growth(lengths, values) -> float:
    """The exponent of the power of the length that fits best: the slope of log(value) over log(length)."""
    x, y = ([math.log(number) for number in numbers] for numbers in (lengths, values))
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - middle_x) ** 2 for a in x)


def verdict(worst: float, limit: float) -> str:
    return f"the limit of {limit} is {'kept' if worst <= limit else 'broken'}, the worst is {worst}"


def time_table() -> None:
    rows = []
    for is_causal in (True, False):
        for length in LENGTHS:
            made = {}
            for name, method in METHODS.items():
                torch.manual_seed(0)  # the same inputs
                made[name] = passes(method, length, is_causal)
            ours, theirs, steps = (made[name] for name in ("tiled", "torch's", "five steps"))
            torch.testing.assert_close(ours[0](), theirs[0](), rtol=1e-4, atol=1e-5)
            a, b = best_seconds(ours[0], theirs[0])
            c, d = best_seconds(ours[1], theirs[1], repeats=8)
            e, f = best_seconds(steps[0], theirs[0], repeats=5)
            rule = "causal" if is_causal else "full"
            ratios = [round(x, 2) for x in (a / b, c / d, e / f)]
            rows.append([f"{rule}, length {length}", *ratios])
            print(rows[-1], flush=True)
    worst = max(max(row[1:3]) for row in rows)
    write_table(
        "flash_cpu",
        caption="Time of tiled FlashAttention, and of the five steps, relative to torch's fused attention, on a CPU",
        note=f"Float32, 4 heads of width 64, one thread, CPU time. Below 1 is faster than torch. For the tiled "
        f"version {verdict(worst, TIME_LIMIT)}.",
        columns=[
            "case",
            "tiled, forward",
            "tiled, forward and backward",
            "five steps, forward",
        ],
        rows=rows,
    )


def memory_table(lengths=LENGTHS[1:]) -> None:
    columns, peaks = ["length"], []
    for k, which in enumerate(("forward", "forward and backward")):
        for name, method in METHODS.items():
            columns.append(f"{name}, {which}")
            peaks.append([peak_bytes(passes(method, length, True)[k]) for length in lengths])
            print(columns[-1], peaks[-1], flush=True)
    rows = [
        [n, *(round(b / 2**20, 1) for b in row)]
        for n, *row in zip(map(str, lengths), *peaks, strict=True)
    ]
    slopes = [round(growth(lengths, column), 2) for column in peaks]
    worst = max(s for name, s in zip(columns[1:], slopes, strict=True) if name.startswith("tiled"))
    write_table(
        "flash_memory",
        caption="Memory of attention beyond its inputs, in MiB",
        note=f"Float32, 4 heads of width 64, causal. An exponent of 1 means that twice the length takes "
        f"twice the memory, 2 that it takes four times as much. For the tiled version "
        f"{verdict(worst, GROWTH_LIMIT)}.",
        columns=columns,
        rows=[*rows, ["exponent", *slopes]],
    )


def main() -> None:
    torch.set_num_threads(1)
    memory_table()
    time_table()


if __name__ == "__main__":
    main()
