"""Graphics cards: what their maker says of them, which one is here, and how fast something runs on it."""

import statistics
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch


class Card(NamedTuple):
    """What the maker publishes.

    Args:
        tflops: products of 16-bit matrices on the tensor cores, dense, in 10^12 FLOP/s.
        bandwidth: of the large memory, in 10^12 bytes/s.
        memory: the large memory, in 10^9 bytes.
        cache: L2, shared by all multiprocessors, in MiB.
        multiprocessors: how many work side by side.
        shared: shared memory of one multiprocessor, in KiB.
        registers: registers of one multiprocessor, in KiB.
        capability: the version of what its instructions can do.
        source: key of the bibliography.
    """

    tflops: float
    bandwidth: float
    memory: int
    cache: int
    multiprocessors: int
    shared: int
    registers: int
    capability: tuple[int, int]
    source: str


# The versions for servers: A100 with 40 GB, H100 and H200 as SXM modules. H200 is the chip of H100 with more memory.
CARDS = {
    "T4": Card(65, 0.32, 16, 4, 40, 64, 256, (7, 5), "nvidia2018"),
    "A100": Card(312, 1.555, 40, 40, 108, 164, 256, (8, 0), "nvidia2020"),
    "H100": Card(989.4, 3.35, 80, 50, 132, 228, 256, (9, 0), "nvidia2022"),
    "H200": Card(989.4, 4.8, 141, 50, 132, 228, 256, (9, 0), "nvidia2024"),
}
DEVICE = "cuda"


def found() -> tuple[str, str]:
    """Which of three machines this is, "none", "older" or "ampere", and a sentence about it."""
    if not (torch.cuda.is_available() and torch.version.cuda):
        return "none", "No NVIDIA GPU here:\neverything runs except what measures speed."
    name, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    this = f"{name}, compute capability {capability[0]}.{capability[1]}"
    if capability < (8, 0):
        return "older", f"{this}:\nthe kernels need 8.0, so tiled and PyTorch are timed."
    return "ampere", f"{this}:\neverything runs and is timed."


def race(contenders: dict[str, Callable[[], object]], repeats: int = 20) -> dict[str, str]:
    """Milliseconds and memory of each contender, or why it cannot run here, as a line of text.

    The time is the median of some runs after three that do not count: the first compiles. The memory is what
    was allocated at the peak beyond what was there before.
    """
    if found()[0] == "none":
        return dict.fromkeys(contenders, "not timed: no GPU")
    return {name: _timed(run, repeats) for name, run in contenders.items()}


def _timed(run: Callable[[], object], repeats: int) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):  # why a backend cannot run, at length
            for _ in range(3):
                run()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        times = [_milliseconds(run) for _ in range(repeats)]
    except RuntimeError as problem:  # also of memory: a kernel that is not there, or does not fit
        return f"cannot run: {str(problem).splitlines()[0][:60]}"
    return f"{statistics.median(times):8.2f} ms {peak:8.0f} MiB"


def _milliseconds(run: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
