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

import pytest
from support.hostile_env import descendants, ended
from support.notebooks import STUDENTS
from support.notebooks_fixture import ANSWER, CHECK, SETUP, SOLVED, write

COMMAND = Path(sys.executable).with_name("attngrade")
WRONG = "def causal_mask(n, m):\n    return torch.ones(n, m, dtype=torch.bool)"
SLOW = "import time\ntime.sleep(6)"
QUICK = [f"q{k:02}" for k in range(16)]
GRADED = {"anna", "ben", "carl", "dora", "emil", "finn", "gita", "zz_slow", *QUICK}
FILES = ["scores.csv", "scores.json", "scores.xml"]


@pytest.fixture(scope="module")
def submissions(tmp_path_factory) -> Path:
    """A class: honest, wrong, untouched, damaged, copied, deadly, slow and unreadable."""
    folder = tmp_path_factory.mktemp("class")
    shutil.copy(SOLVED, folder / "anna.ipynb")
    for name in ("carl", "dora"):
        (folder / name).mkdir()
    shutil.copy(SOLVED, folder / "carl" / "again.ipynb")
    write(folder / "ben.ipynb", SETUP, WRONG, CHECK)
    untouched = next(path for path in STUDENTS if path.name == SOLVED.name)
    shutil.copy(untouched, folder / "dora" / "02.ipynb")
    write(folder / "emil.ipynb", "1 +", SETUP, ANSWER, ANSWER, CHECK, CHECK)
    write(folder / "finn.ipynb", SETUP, "import os\nos._exit(0)", ANSWER, CHECK)
    write(folder / "gita.ipynb", "print('nothing of this course')")
    for name in QUICK:
        write(folder / f"{name}.ipynb", SETUP, f"{ANSWER}  # {name}", CHECK)
    write(folder / "zz_slow.ipynb", SETUP, SLOW, ANSWER, CHECK)
    (folder / "hugo.ipynb").write_bytes(b"%PDF-1.7 \x00\xff")
    (folder / "iris.ipynb").symlink_to("/etc/passwd")
    (folder / "jan.ipynb").touch()
    (folder / os.fsdecode(b"k\xe9v.ipynb")).write_text("=cmd()")
    return folder


def start(submissions: Path, out: Path, *more: str) -> subprocess.Popen:
    command = [COMMAND, submissions, "--out", out, "--seconds", "60", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=out.parent, start_new_session=True, **pipes)


def lines(out: Path) -> list[bytes]:
    path = out / "journal.jsonl"
    return path.read_bytes().splitlines() if path.exists() else []


def wait_for(process: subprocess.Popen, out: Path, number: int) -> None:
    """Until so many results are in the journal."""
    until = time.monotonic() + 120
    while len(lines(out)) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def workers(grader: subprocess.Popen) -> list[int]:
    """The processes of dask in which it grades."""
    found = []
    for pid in descendants(grader.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def written(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES} | {
        path.name: path.read_bytes() for path in (out / "feedback").iterdir()
    }


@pytest.fixture(scope="module")
def results(submissions, tmp_path_factory):
    """An uninterrupted run, with its results among the submissions; they are moved away after it."""
    inside = submissions / "results"
    process = start(submissions, inside, "--workers", "2")
    said, progress = process.communicate(timeout=240)
    assert process.returncode == 0, progress
    assert f"{inside / 'scores.csv'}" in said
    return inside.rename(tmp_path_factory.mktemp("moved") / "results"), said, progress


@pytest.fixture(scope="module")
def rows(results):
    with (results[0] / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_everybody_has_a_row_and_nobody_else(rows):
    assert rows.keys() == GRADED | {"hugo", "iris", "jan", "k[U+DCE9]v"}


def test_points_are_what_was_earned(rows):
    full = rows["anna"]["out_of"]
    assert {name: rows[name]["total"] for name in ("anna", "carl")} == {"anna": full, "carl": full}
    for name in ("emil", "finn", "zz_slow", *QUICK):
        assert rows[name]["causal_mask"] == "1", name
    for name in ("ben", "dora", "gita", "hugo", "iris", "jan"):
        assert rows[name]["total"] == "0", name


def test_what_was_wrong_stands_in_the_row(rows):
    assert "The same work was handed in by carl." in rows["anna"]["notes"]
    assert "The same work was handed in by anna." in rows["carl"]["notes"]
    assert "Cell 2 ended the worker." in rows["finn"]["notes"]
    assert "no answer of this course" in rows["gita"]["notes"]
    assert "is a link" in rows["iris"]["notes"]
    assert "empty" in rows["jan"]["notes"]
    assert rows["hugo"]["notes"]
    assert not rows["ben"]["notes"]


def test_the_summary_says_what_a_teacher_must_know(results, rows):
    folder, said, progress = results
    assert said.startswith(f"{len(rows)} students, ")
    assert "In force: limits of the kernel" in said
    official = json.loads((folder / "scores.json").read_text())["official"]
    assert f"These scores are {'official.' if official else 'unofficial: '}" in said
    assert f"{len(rows)}/{len(rows)}" in progress
    assert "Traceback" not in progress


def test_the_secret_is_for_its_owner_only(results):
    assert (results[0] / "secret").stat().st_mode & 0o777 == 0o600
    assert len((results[0] / "secret").read_bytes()) == 32


def test_killed_twice_and_resumed_it_is_the_same(submissions, results, tmp_path):
    """``kill -9`` of a worker, then of the grader; then another number of workers."""
    out, same = tmp_path / "out", ("--secret-file", str(results[0] / "secret"))
    first = start(submissions, out, *same, "--workers", "2")
    wait_for(first, out, 1)
    os.kill(workers(first)[0], signal.SIGKILL)
    wait_for(first, out, 4)
    running = descendants(first.pid)
    first.kill()
    first.communicate()
    half = lines(out)
    assert 4 <= len(half) < len(GRADED)
    assert ended(running - {first.pid}, seconds=30)
    with (out / "journal.jsonl").open("ab") as file:
        file.write(half[0][:40])
    second = start(submissions, out, *same, "--workers", "1")
    progress = second.communicate(timeout=240)[1]
    assert second.returncode == 0, progress
    assert lines(out)[: len(half)] == half
    names = Counter(json.loads(line)["graded"]["student"] for line in lines(out))
    assert names == dict.fromkeys(names, 1)
    assert names.keys() == GRADED | {"hugo", "jan", "k\udce9v"}
    assert written(out) == written(results[0])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_ctrl_c_ends_everything_and_says_how_to_go_on(submissions, tmp_path):
    out = tmp_path / "out"
    process = start(submissions, out, "--workers", "1")
    wait_for(process, out, 1)
    running = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    said, progress = process.communicate(timeout=60)
    assert process.returncode == 130, progress
    assert said == ""
    assert progress.rstrip().endswith("give the same command again to go on.")
    assert "Traceback" not in progress
    assert ended(running, seconds=10)
