"""The benchmarks as modules, and what is said of a card that is not here."""

import sys
from importlib import import_module

from support.book.notebooks import ROOT
from support.proofs import MECHANISM

sys.path.append(str(ROOT / "benchmarks"))
MACHINE = dict.fromkeys(("driver", "torch", "triton", "cuda", "python", "code", "date"), "1.0")
MACHINE |= {"card": "NVIDIA H100 80GB HBM3", "capability": "9.0"}
MS = (2.0, 1.9, 2.2)  # the median of a call, and its 20th and 80th percentile


def depends(item) -> list:
    """What decides whether a test of the benchmarks passes: files that import this name say so."""
    return [ROOT / "benchmarks", *(ROOT / path for path in MECHANISM)]


def gpu(*names: str) -> list:
    """Modules of `benchmarks/gpu`."""
    return [import_module(f"gpu.{name}") for name in names]


def clocked(function, *_) -> tuple[float, float, float]:
    """Every call takes as long."""
    function()
    return MS
