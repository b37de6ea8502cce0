"""A thousand submissions with the real command, while a judge and the grader are killed."""

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from results import write_table

COUNT, WORKERS = 1000, 2
COMMAND = sys.executable, "-m", "attngrade"
MIB = 2**20


def thousand(copies: Callable, notebook, count: int = COUNT) -> None:
    """Grade so many copies: after a third the grader is killed, after two thirds a judge.

    Raises:
        AssertionError: a submission was lost, graded twice, or got another score.
    """
    with tempfile.TemporaryDirectory() as folder:
        copies(notebook, Path(folder) / "in", count)
        results = Path(folder) / "out"
        start = time.monotonic()
        first = begin(Path(folder))
        wait(results, count // 3, first)
        first.kill()
        first.wait()
        before = graded(results)
        second = begin(Path(folder))
        memory = [wait(results, before + count // 10, second)]
        wait(results, 2 * count // 3, second)
        judge_of(second).kill()
        memory.append(wait(results, count - WORKERS, second))
        assert second.wait() == 0
        seconds = time.monotonic() - start
        with (results / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        points = [float(row.get("causal_mask") or 0) for row in rows]
        written = graded(results)
        row = [count, before, len(rows), sum(points), written, *memory, round(seconds)]
        print(row, flush=True)
        assert len(rows) == len({row["student"] for row in rows}) == count
        assert all(earned == 1 for earned in points)
        assert written == count, "a submission was graded twice"
        write_table(
            "grading_thousand",
            caption="A class of a thousand; the grader and later a judge are killed on the way",
            note=f"Copies of one exercise of one point, solved; {WORKERS} at once. Memory is that of the grader "
            "and its server of judges, at a tenth of the second run and at its end.",
            columns=["submissions", "graded when the grader was killed", "rows", "points", "results written", "MiB early", "MiB late", "seconds"],
            rows=[row],
        )  # fmt: skip


def begin(folder: Path) -> psutil.Popen:
    """Start the command on the submissions."""
    arguments = str(folder / "in"), "--out", str(folder / "out"), "--workers", str(WORKERS)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return psutil.Popen([*COMMAND, *arguments], stderr=subprocess.DEVNULL, env=environment)


def graded(results: Path) -> int:
    """How many results the journal holds."""
    journal = results / "journal.jsonl"
    return journal.read_bytes().count(b'"student"') if journal.exists() else 0


def wait(results: Path, count: int, grader: psutil.Popen) -> int:
    """Until so many are graded; the MiB of memory that the grader then has."""
    while graded(results) < count:
        assert grader.poll() is None, "the grader ended too early"
        time.sleep(0.05)
    return sum(process.memory_info().rss for process in (grader, *servers(grader))) // MIB


def servers(grader: psutil.Popen) -> list[psutil.Process]:
    """The process from which judges are forked."""
    return [x for x in grader.children() if any("forkserver" in text for text in x.cmdline())]


def judge_of(grader: psutil.Popen) -> psutil.Process:
    """A judge that is at work."""
    while True:
        for server in servers(grader):
            for judge in server.children():
                return judge
