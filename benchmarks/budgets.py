"""What the course promises to stay below: seconds of the book, its tests and chapters, page weights.

    python benchmarks/budgets.py

Runs the real commands on this checkout, the test suite included, so it takes some minutes.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from results import write_table

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
LOADED = re.compile(r'<(?:script|img|link)[^>]*?(?:src|href)="([^"#?]+)')


def seconds(*command: str, threads: int = 1) -> tuple[float, bool]:
    """Wall time of a command, and whether it succeeded."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started, done.returncode == 0


def page_bytes() -> tuple[int, int]:
    """Raw and gzipped bytes of the heaviest page, with every script, style, font and image."""
    shared = [SITE / "_static" / "mathjax" / "tex-chtml.js"]
    heaviest = (0, 0)
    for page in SITE.rglob("*.html"):
        links = LOADED.findall(page.read_text(encoding="utf-8"))
        parts = {(page.parent / link).resolve() for link in links if "://" not in link}
        parts = {p for p in parts if p.is_file() and p.suffix != ".html"} | {page, *shared}
        contents = [p.read_bytes() for p in parts]
        raw, gzipped = sum(map(len, contents)), sum(len(gzip.compress(c)) for c in contents)
        heaviest = max(heaviest, (raw, gzipped))
    return heaviest


def same_outputs(threads: int) -> bool:
    """nbval, strict, over all chapters and solutions."""
    notebooks = [*ROOT.glob("chapters/*.ipynb"), *ROOT.glob("exercises/solutions/*.ipynb")]
    pytest = (sys.executable, "-m", "pytest", "-q", "--nbval")
    return seconds(*pytest, *map(str, sorted(notebooks)), threads=threads)[1]


def main() -> None:
    rows = []

    def measured(what: str, limit: str, value: str) -> None:
        rows.append([what, limit, value])
        print(what, value, flush=True)

    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    measured("make book, from nothing", "90 s", f"{seconds('make', 'book')[0]:.0f} s")
    passed, good = seconds("make", "test")
    # ten minutes, three for the kernels of FlashAttention, five for the grader of classes
    measured("make test, after set-up", "1080 s", f"{passed:.0f} s{'' if good else ', FAILED'}")
    for chapter in sorted(ROOT.glob("chapters/*.ipynb")):
        scratch = chapter.with_name(f"scratch_{chapter.name}")
        shutil.copy(chapter, scratch)
        took, _ = seconds(sys.executable, "tools/run_notebooks.py", str(scratch))
        scratch.unlink()
        measured(f"chapter {chapter.stem}", "60 s", f"{took:.0f} s")
    raw, gzipped = page_bytes()
    measured("heaviest page", "2.5 MB", f"{raw / 1e6:.2f} MB")
    measured("heaviest page, gzipped", "0.9 MB", f"{gzipped / 1e6:.2f} MB")
    for run, threads in enumerate((1, 1, 2), start=1):
        verdict = "no difference" if same_outputs(threads) else "DIFFERENT"
        measured(f"notebook outputs, run {run}, {threads} thread(s)", "no difference", verdict)
    write_table(
        "budgets",
        caption="What the course promises to stay below",
        note=f"Wall time on a machine with {os.cpu_count()} cores.",
        columns=["what", "limit", "measured"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
