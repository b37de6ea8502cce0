"""The card: which one it is, and clocks for it. Without one the same calls run on the CPU, for checks."""

import hashlib
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("attncourse/variants/flash", "benchmarks/gpu")


def is_here() -> bool:
    """A card of NVIDIA's, and a torch that was built for it."""
    return torch.cuda.is_available() and bool(torch.version.cuda)


def device() -> str:
    return "cuda" if is_here() else "cpu"


def capability() -> tuple[int, int]:
    """The generation: (7, 5) is Turing's T4, (8, x) Ampere and Ada, (9, 0) Hopper; (0, 0) is no card."""
    return torch.cuda.get_device_capability() if is_here() else (0, 0)


def has_bfloat16() -> bool:
    """Before Ampere there is none."""
    return capability() >= (8, 0)


def narrow() -> torch.dtype:
    """Numbers of two bytes that this card multiplies fast."""
    return torch.bfloat16 if has_bfloat16() else torch.float16


def about() -> dict[str, str]:
    """The card and the software, as far as they can matter."""
    return {
        "card": torch.cuda.get_device_name() if is_here() else "no card",
        "capability": "{}.{}".format(*capability()),
        "driver": driver() if is_here() else "none",
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
        "code": digest(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def digest() -> str:
    """Of the code that is measured and of the code that measures: what another one found is not mixed in."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).glob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.check_output(command, text=True, timeout=60).split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def slug(card: str) -> str:
    """The card in a file name: "NVIDIA H100 80GB HBM3" is nvidia_h100_80gb_hbm3."""
    return re.sub(r"[^a-z0-9]+", "_", card.lower()).strip("_")


def interpreted() -> bool:
    """Triton's kernels run on the CPU, in its interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def settle() -> None:
    """Wait for the card and give memory back; raises if a kernel has spoiled the device."""
    if is_here():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def fits(nbytes: float) -> bool:
    """So many bytes are free on the card."""
    return not is_here() or nbytes < torch.cuda.mem_get_info()[0]


def milliseconds(function, warmup: int = 25, rep: int = 100) -> tuple[float, float, float]:
    """The median time of a call on the card, and its 20th and 80th percentile.

    Args:
        warmup, rep: for so many milliseconds the function is run first, and then timed. The card's cache is
            emptied before each call.
    """
    from triton.testing import do_bench

    return tuple(do_bench(function, warmup=warmup, rep=rep, quantiles=[0.5, 0.2, 0.8]))


def peak_mib(function) -> float:
    """The most memory that a call holds at any time, beyond what was there before it."""
    settle()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = function()  # noqa: F841 (the result counts as well)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
