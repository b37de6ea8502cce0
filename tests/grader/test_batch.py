"""The command as a teacher gives it: a mixed class, killed and resumed, and the same bytes every time."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.grader.submission import ANSWER, CHECK, SETUP, SOLVED, write

COMMAND = sys.executable, "-m", "attngrade"
WRONG = "def causal_mask(n, m):\n    return torch.ones(n, m, dtype=torch.bool)"
SLOW, DEADLY = "import time\ntime.sleep(6)", "import os\nos._exit(0)"
EARN_ONE = {"emil", "zz_slow"}
GRADED = {"anna", "ben", "carl", *EARN_ONE}
UNREADABLE = {"hugo", "iris", "k\udce9v"}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    """A class: honest, wrong, damaged, copied, deadly, slow and unreadable."""
    folder = tmp_path_factory.mktemp("class")
    shutil.copy(SOLVED, folder / "anna.ipynb")
    (folder / "carl").mkdir()
    shutil.copy(SOLVED, folder / "carl" / "again.ipynb")
    write(folder / "carl" / "more.ipynb", SETUP, WRONG, CHECK)
    write(folder / "ben.ipynb", SETUP, WRONG, CHECK)
    write(folder / "emil.ipynb", "1 +", SETUP, DEADLY, ANSWER, ANSWER, CHECK, CHECK)
    write(folder / "zz_slow.ipynb", SETUP, SLOW, ANSWER, CHECK)
    (folder / "hugo.ipynb").write_bytes(b"%PDF-1.7 \x00\xff")
    (folder / "iris.ipynb").symlink_to("/etc/passwd")
    (folder / os.fsdecode(b"k\xe9v.ipynb")).write_text("=cmd()")
    return folder


def start(submissions: Path, out: Path, *more: str) -> psutil.Popen:
    command = [*COMMAND, submissions, "--out", out, "--seconds", "60", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return psutil.Popen(command, cwd=out.parent, start_new_session=True, **pipes)


def lines(out: Path) -> list[dict]:
    """The results in the journal; the controls are left out."""
    path = out / "journal.jsonl"
    text = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in text if line.endswith(b"\n")]
    return [line for line in found if "student" in line]


def wait_for(process: psutil.Popen, out: Path, number: int) -> None:
    """Until so many results are in the journal."""
    until = time.monotonic() + 300
    while len(lines(out)) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def judges(grader: psutil.Popen) -> list[psutil.Process]:
    """The processes that judge: forked from the server, which is a child of the grader."""
    servers = [x for x in grader.children() if any("forkserver" in text for text in x.cmdline())]
    return [judge for server in servers for judge in server.children()]


def written(out: Path) -> dict[str, bytes]:
    pages = {path.name: path.read_bytes() for path in (out / "feedback").iterdir()}
    return pages | {"scores.csv": (out / "scores.csv").read_bytes()}


@pytest.fixture(scope="module")
def results(submissions, tmp_path_factory):
    """An uninterrupted run, with its results among the submissions; they are moved away after it."""
    inside = submissions / "results"
    process = start(submissions, inside, "--workers", "2")
    said, progress = process.communicate(timeout=600)
    assert process.returncode == 0, progress
    assert f"{inside / 'scores.csv'}" in said
    return inside.rename(tmp_path_factory.mktemp("moved") / "results"), said, progress


@pytest.fixture(scope="module")
def rows(results):
    with (results[0] / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_everybody_has_the_points_that_were_earned_and_is_told_what_was_wrong(rows):
    assert rows.keys() == GRADED | {"hugo", "iris", "k[U+DCE9]v"}
    full = rows["anna"]["out_of"]
    assert {name: rows[name]["total"] for name in ("anna", "carl")} == {"anna": full, "carl": full}
    assert [rows[name]["causal_mask"] for name in EARN_ONE] == ["1"] * len(EARN_ONE)
    assert [rows[name]["total"] for name in ("ben", "hugo", "iris")] == ["0"] * 3
    assert "The same work was handed in by carl." in rows["anna"]["notes"]
    assert "The same work was handed in by anna." in rows["carl"]["notes"]
    assert "Cell 1 raised SyntaxError" in rows["emil"]["notes"]
    assert "Cell 3 ended the worker." in rows["emil"]["notes"]
    assert "is a link" in rows["iris"]["notes"]
    assert rows["hugo"]["notes"]
    assert not rows["ben"]["notes"]


def test_the_summary_says_what_a_teacher_must_know(results, rows):
    said, progress = results[1:]
    assert said.startswith(f"{len(rows)} students, ")
    assert "In force: limits of the kernel" in said
    sandboxed = "In force: bubblewrap" in said
    assert f"These scores are {'official.' if sandboxed else 'unofficial: '}" in said
    assert f"{len(rows)}/{len(rows)}" in progress
    assert "Traceback" not in progress


def test_interrupted_and_killed_and_resumed_it_is_the_same(submissions, results, tmp_path):
    """Ctrl-C; ``kill -9`` of a judge, then of the grader; then another number of workers."""
    out, same = tmp_path / "out", ("--secret-file", str(results[0] / "secret"))
    first = start(submissions, out, *same, "--workers", "1")
    wait_for(first, out, 1)
    running = first.children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(first.pid, signal.SIGINT)
    said, progress = first.communicate(timeout=300)
    assert (first.returncode, said) == (130, ""), progress
    assert progress.rstrip().endswith("give the same command again to go on.")
    assert "Traceback" not in progress
    assert psutil.wait_procs(running, timeout=120)[1] == []

    before = len(lines(out))
    second = start(submissions, out, *same, "--workers", "2")
    until = time.monotonic() + 300
    while not (found := judges(second)) and time.monotonic() < until:
        time.sleep(0.01)
    found[0].kill()
    wait_for(second, out, before + 2)
    running = second.children(recursive=True)
    second.kill()
    second.communicate()
    assert psutil.wait_procs(running, timeout=120)[1] == []
    half = lines(out)
    assert before + 2 <= len(half) < len(GRADED | UNREADABLE)

    with (out / "journal.jsonl").open("ab") as file:
        file.write(b'{"student": "anna", "digest": "')
    third = start(submissions, out, *same, "--workers", "1")
    progress = third.communicate(timeout=600)[1]
    assert third.returncode == 0, progress
    assert lines(out)[: len(half)] == half
    assert Counter(line["student"] for line in lines(out)) == dict.fromkeys(GRADED | UNREADABLE, 1)
    assert written(out) == written(results[0])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
