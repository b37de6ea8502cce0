"""What the course promises to stay below: seconds of the book, its tests and chapters, page weights.

    python benchmarks/budgets.py                          everything: the test suite, too
    python benchmarks/budgets.py --only quick chapters    the rows of these parts; others stay

Runs the real commands on this checkout. Nothing but this program writes ``results/budgets.json``.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from results import RESULTS, write_table

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


Rows = list[list[str]]  # what, limit, measured


@contextmanager
def without(folder: str) -> Iterator[None]:
    """As if a folder of this checkout did not exist; it comes back afterwards."""
    aside = ROOT / f"{folder}.aside"
    if (ROOT / folder).exists():
        (ROOT / folder).rename(aside)
    try:
        yield
    finally:
        if aside.exists():
            shutil.rmtree(ROOT / folder, ignore_errors=True)
            aside.rename(ROOT / folder)


def made(what: str, limit: float, target: str) -> list[str]:
    """The row of a target of make."""
    took, good = seconds("make", target)
    return [what, f"{limit} s", f"{took:.0f} s{'' if good else ', FAILED'}"]


def book() -> Rows:
    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    return [made("make book, from nothing", 90, "book")]


def quick() -> Rows:
    with without(".proofs"):
        return [made("make quick, nothing proven before", 60, "quick")]


def tests() -> Rows:
    """A clean and a second run; what a chapter and an exercise cost; what all planned ones will."""
    with without(".proofs"), tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        os.environ["PYTEST_ADDOPTS"] = f"--junitxml={report}"
        first = made("make test, from a clean clone after set-up", 480, "test")
        del os.environ["PYTEST_ADDOPTS"]
        second = made("make test, nothing changed", 180, "test")
        found = costs(report)
    chapters, exercises, wall = len(CHAPTERS), len(names()), float(first[-1].split()[0])
    projected = found.projected(wall, chapters, exercises, PLANNED)
    of_a_worker = (
        ("one chapter: notebooks and pages", f"{found.chapters / chapters:.0f}"),
        ("one exercise: its checks", f"{found.exercises / exercises:.1f}"),
        ("everything else in the tests", f"{found.rest:.0f}"),
    )
    return [
        first,
        second,
        *([what, "-", f"{took} s of a worker"] for what, took in of_a_worker),
        [f"make test, projected for {PLANNED} chapters", "1200 s", f"{projected:.0f} s"],
    ]


def chapters() -> Rows:
    rows = []
    for chapter in sorted(ROOT.glob("chapters/[0-9]*.ipynb")):
        scratch = chapter.with_name(f"scratch_{chapter.name}")
        shutil.copy(chapter, scratch)
        try:
            took, good = seconds(sys.executable, "tools/run_notebooks.py", str(scratch))
        finally:
            scratch.unlink()
        rows.append(
            [f"chapter {chapter.stem}", "60 s", f"{took:.0f} s{'' if good else ', FAILED'}"]
        )
    return rows


def pages() -> Rows:
    """Of the site as it was built last."""
    raw, gzipped = page_bytes()
    return [
        ["heaviest page", "2.5 MB", f"{raw / 1e6:.2f} MB"],
        ["heaviest page, gzipped", "0.9 MB", f"{gzipped / 1e6:.2f} MB"],
    ]


def outputs() -> Rows:
    verdict = "no difference" if same_outputs(threads=2) else "DIFFERENT"
    return [["notebook outputs, 2 threads", "no difference", verdict]]


# What measures the rows of a part, and how these begin.
PARTS: dict[str, tuple[Callable[[], Rows], tuple[str, ...]]] = {
    "book": (book, ("make book",)),
    "quick": (quick, ("make quick",)),
    "tests": (tests, ("make test", "the tests of make test", "one ", "everything else")),
    "chapters": (chapters, ("chapter ",)),
    "pages": (pages, ("heaviest page",)),
    "outputs": (outputs, ("notebook outputs",)),
}


def measured(parts: list[str], known: Rows) -> Rows:
    """The rows of these parts, new; those of all other parts as they are known."""
    rows = []
    for part, (measure, beginnings) in PARTS.items():
        if part in parts:
            new = measure()
            print(*new, sep="\n", flush=True)
            rows += new
        else:
            rows += [row for row in known if row[0].startswith(beginnings)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the course promises to stay below.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parts = parser.parse_args().only
    file = RESULTS / "budgets.json"
    known = json.loads(file.read_text("utf-8"))["rows"] if file.exists() else []
    write_table(
        "budgets",
        caption="What the course promises to stay below",
        note=f"Wall time on a machine with {os.cpu_count()} cores, by benchmarks/budgets.py. "
        f"Measured last: {', '.join(parts)}.",
        columns=["what", "limit", "measured"],
        rows=measured(parts, known),
    )


if __name__ == "__main__":
    main()
