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
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

from results import write_table

from attncourse.grading import names
from attncourse.grading.exercises import CHAPTERS

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
PLANNED = 22  # chapters
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


class Costs(NamedTuple):
    """Seconds that workers spent in the tests of a run."""

    chapters: float  # notebooks, masters and pages
    exercises: float  # what is parametrized by the name of an exercise
    rest: float

    def projected(self, wall: float, chapters: int, exercises: int, planned: int) -> float:
        """Wall seconds for ``planned`` chapters with as many exercises each as today's have."""
        grown = (self.chapters + self.exercises) * planned / chapters + self.rest
        return wall * grown / sum(self)


def costs(report: Path) -> Costs:
    """Sorts the tests of a run by what there will be more of."""
    chapters = exercises = rest = 0.0
    for test in ET.parse(report).iter("testcase"):
        name, took = f"{test.get('classname')}::{test.get('name')}", float(test.get("time"))
        if ".ipynb" in name or "[chapters/" in name or "[exercises/" in name:
            chapters += took
        elif any(f"[{exercise}" in name or f"-{exercise}" in name for exercise in names()):
            exercises += took
        else:
            rest += took
    return Costs(chapters, exercises, rest)


def main() -> None:
    rows = []

    def measured(what: str, limit: str, value: str) -> None:
        rows.append([what, limit, value])
        print(what, value, flush=True)

    def command(what: str, limit: float, *target: str) -> float:
        took, good = seconds("make", *target)
        measured(what, f"{limit} s", f"{took:.0f} s{'' if good else ', FAILED'}")
        return took

    for folder in ("_build", ".proofs"):
        shutil.rmtree(ROOT / folder, ignore_errors=True)
    command("make book, from nothing", 90, "book")
    command("make quick, nothing proven before", 60, "quick")
    shutil.rmtree(ROOT / ".proofs", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        os.environ["PYTEST_ADDOPTS"] = f"--junitxml={report}"
        wall = command("make test, from a clean clone after set-up", 480, "test")
        del os.environ["PYTEST_ADDOPTS"]
        found = costs(report)
    command("make test, nothing changed", 180, "test")
    chapters, exercises = len(CHAPTERS), len(names())
    measured(
        "one chapter: notebooks and pages", "-", f"{found.chapters / chapters:.0f} s of a worker"
    )
    measured("one exercise: its checks", "-", f"{found.exercises / exercises:.1f} s of a worker")
    measured("everything else", "-", f"{found.rest:.0f} s of a worker")
    projected = found.projected(wall, chapters, exercises, PLANNED)
    measured(f"make test, projected for {PLANNED} chapters", "1200 s", f"{projected:.0f} s")
    for chapter in sorted(ROOT.glob("chapters/*.ipynb")):
        scratch = chapter.with_name(f"scratch_{chapter.name}")
        shutil.copy(chapter, scratch)
        took, _ = seconds(sys.executable, "tools/run_notebooks.py", str(scratch))
        scratch.unlink()
        measured(f"chapter {chapter.stem}", "60 s", f"{took:.0f} s")
    raw, gzipped = page_bytes()
    measured("heaviest page", "2.5 MB", f"{raw / 1e6:.2f} MB")
    measured("heaviest page, gzipped", "0.9 MB", f"{gzipped / 1e6:.2f} MB")
    verdict = "no difference" if same_outputs(threads=2) else "DIFFERENT"
    measured("notebook outputs, 2 threads", "no difference", verdict)
    write_table(
        "budgets",
        caption="What the course promises to stay below",
        note=f"Wall time on a machine with {os.cpu_count()} cores, by benchmarks/budgets.py.",
        columns=["what", "limit", "measured"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
