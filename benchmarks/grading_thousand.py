"""A thousand submissions with the real command, while the grader and a worker are killed."""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from results import write_table

COUNT, WORKERS = 1000, 2
COMMAND = sys.executable, "-m", "attngrade.batch"


def thousand(copies: Callable, notebook, count: int = COUNT) -> None:
    """Grade so many copies: after a third the grader is killed, after two thirds a worker.

    Raises:
        AssertionError: a submission was lost, graded twice, or got another score.
    """
    with tempfile.TemporaryDirectory() as folder:
        copies(notebook, Path(folder) / "in", count)
        results = Path(folder) / "out"
        start = time.monotonic()
        first = begin(Path(folder))
        wait(results, count // 3, first)
        kill(first.pid)
        first.wait()
        before = graded(results)
        second = begin(Path(folder))
        wait(results, 2 * count // 3, second)
        victim = worker_of(second.pid)
        kill(victim)
        assert second.wait() == 0
        seconds = time.monotonic() - start
        with (results / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        points = [row.get("causal_mask") for row in rows]
        written = graded(results)
        row = [
            count,
            before,
            len(rows),
            sum(float(p or 0) for p in points),
            written,
            round(seconds),
        ]
        print(row, flush=True)
        assert len(rows) == len({row["student"] for row in rows}) == count
        assert all(float(p) == 1 for p in points)
        assert written <= count + 1, "a submission was graded twice"
        write_table(
            "grading_thousand",
            caption="A class of a thousand; the grader and later a worker are killed on the way",
            note=f"Copies of one exercise of one point, solved; {WORKERS} workers.",
            columns=["submissions", "graded when the grader was killed", "rows", "points", "results written", "seconds"],
            rows=[row],
        )  # fmt: skip


def begin(folder: Path) -> subprocess.Popen:
    """Start the command on the submissions."""
    arguments = str(folder / "in"), "--out", str(folder / "out"), "--workers", str(WORKERS)
    return subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip


def graded(results: Path) -> int:
    """How many results the journal holds."""
    journal = results / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def wait(results: Path, count: int, grader: subprocess.Popen) -> None:
    """Until so many are graded."""
    while graded(results) < count:
        assert grader.poll() is None, "the grader ended too early"
        time.sleep(0.05)


def worker_of(pid: int) -> int:
    """One of the processes of the cluster: a child of the grader that has a sandbox below it."""
    for child in children(pid):
        if any(b"bwrap" in command(x) or b"zygote" in command(x) for x in children(child)):
            return child
    raise AssertionError("no worker was found")


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, listed.read_text().split())
    return found


def command(pid: int) -> bytes:
    """The command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def kill(pid: int) -> None:
    """Without a word of warning."""
    os.kill(pid, signal.SIGKILL)
