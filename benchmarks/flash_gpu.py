"""FlashAttention on an NVIDIA GPU: is it right, how fast is it, how much memory does it take?

    python3 benchmarks/flash_gpu.py                        everything
    python3 benchmarks/flash_gpu.py --quick                two lengths, fewer shapes
    python3 benchmarks/flash_gpu.py --parts tiles          correctness and tiles only
    python3 benchmarks/flash_gpu.py --out FILE_OR_FOLDER   default: benchmarks/results

Needs torch with CUDA, and Triton, which comes with it; attncourse need not be installed. Correctness always
comes first, and a backend that is wrong is not timed. What was measured is on the disk at once, in
flash_CARD.json, so a kernel that hangs loses nothing else; "hopper" comes last. The exit code is 1 if a
backend of ours failed anywhere.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_apart import apart, in_short, stripes  # noqa: E402
from gpu_check import DTYPES, QUICK, SHAPES, check  # noqa: E402
from gpu_speed import KEY_LENGTHS, LENGTHS, OURS, RIVALS, cases, race  # noqa: E402
from gpu_sweep import compiled, sweep, trials  # noqa: E402
from gpu_tables import tables  # noqa: E402

WORKERS = min(8, os.cpu_count() or 1)
NO_GPU = (
    "An NVIDIA GPU was expected; torch {version} finds none. Run this where nvidia-smi lists a card and torch "
    "was installed with CUDA. For a CPU there is benchmarks/flash.py"
)


def about() -> dict[str, str]:
    """The card and the software, as far as they can matter."""
    import triton

    return {
        "card": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.check_output(command, text=True, timeout=60).split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def slug(card: str) -> str:
    """The card in a file name: "NVIDIA H100 80GB HBM3" is nvidia_h100_80gb_hbm3."""
    return re.sub(r"[^a-z0-9]+", "_", card.lower()).strip("_")


def place(out: str | None, card: str) -> Path:
    out = Path(out) if out else ROOT / "benchmarks" / "results"
    path = out if out.suffix == ".json" else out / f"flash_{slug(card)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


class Report:
    """Everything measured so far, on the disk after each result."""

    def __init__(self, path: Path, machine: dict[str, str]):
        self.path, self.machine = path, machine
        self.cells, self.ready, self.failures, self.left_out = {}, [], [], []

    def add(self, key: tuple, value) -> None:
        """(table, row, column) and a value; or "failed" or "ready" in place of the table."""
        table, row, column = key
        print(*key, value, flush=True)
        if table == "ready":
            self.ready.append(row)
            return
        if table != "failed":
            self.cells[key] = value
        elif column in OURS:
            self.failures.append(f"{column}: {row}: {value}")
        else:
            self.left_out.append(f"{column}: {row}: {value}")
        if table == "correctness" and isinstance(value, str):
            self.failures.append(f"{row[0]}: {row[1]}, {column}: {value}")
        self.write()

    def fail(self, text: str) -> None:
        print("FAILED", text, flush=True)
        self.failures.append(text)
        self.write()

    def is_right(self, backend: str) -> bool:
        """Something was checked, and nothing failed."""
        checked = any(key[0] == "correctness" and key[1][0] == backend for key in self.cells)
        return checked and not any(text.startswith(f"{backend}:") for text in self.failures)

    def write(self) -> None:
        """First beside its place, so that whoever is interrupted leaves a whole file."""
        content = self.machine | {
            "failures": self.failures,
            "left_out": self.left_out,
            "tables": tables(self.cells, self.machine),
        }
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self.path)


def collect(report: Report, what: str, *jobs: tuple) -> None:
    """Run jobs apart; one that hangs, crashes or raises is a failure of ours, whatever the reason."""
    print(f"== {what}", flush=True)
    try:
        for key, value in apart(*jobs):
            report.add(key, value)
    except (RuntimeError, TimeoutError) as problem:
        report.fail(f"{what}: {in_short(problem)}")


def measure(report: Report, backend: str, options: argparse.Namespace) -> None:
    """All parts for one backend of ours; torch's own take part beside "triton"."""
    todo = [(s, dtype) for dtype in DTYPES for s in (QUICK if options.quick else SHAPES)]
    hands = stripes(todo, WORKERS)  # it is compiling that takes time, and that can be shared
    collect(report, f"{backend}: correctness", *((check, backend, hand) for hand in hands))
    if not report.is_right(backend):
        report.fail(f"{backend}: not shown to be right")
    timed = report.is_right(backend) or options.even_if_wrong
    names = (backend,) * timed + RIVALS * (backend == "triton")
    if "speed" in options.parts and names:
        lengths = KEY_LENGTHS if options.quick else LENGTHS
        collect(report, f"{backend}: speed and memory", (race, names, cases(lengths)))
    if "tiles" in options.parts and timed:
        report.ready = []
        hands = stripes(trials(backend), WORKERS)
        collect(report, f"{backend}: tiles that compile", *((compiled, hand) for hand in hands))
        collect(report, f"{backend}: tiles", (sweep, report.ready))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two lengths and fewer shapes")
    parser.add_argument("--parts", nargs="*", default=["speed", "tiles"], choices=["speed", "tiles"],
                        help="what to measure after correctness; the file then holds nothing else")  # fmt: skip
    parser.add_argument("--out", metavar="FILE_OR_FOLDER", help="default: benchmarks/results")
    parser.add_argument("--even-if-wrong", action="store_true", help="time what failed, too")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if not (torch.cuda.is_available() and torch.version.cuda):
        print(NO_GPU.format(version=torch.__version__), file=sys.stderr)
        return 1
    machine = about()
    report = Report(place(options.out, machine["card"]), machine)
    measure(report, "triton", options)
    if torch.cuda.get_device_capability() == (9, 0):
        measure(report, "hopper", options)
    print(f"Written to {report.path}")
    for text in report.failures:
        print("FAILED", text)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
