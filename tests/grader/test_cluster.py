"""Who grades: controls that fail, a worker of dask that breaks; what the command refuses, and why."""

import csv
import json
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from distributed import LocalCluster
from support.grader import failing_grader
from support.grader.results import passes
from support.grader.submission import ANSWER, CHECK, SETUP, write

from attngrade import Order, grader
from attngrade.cli import main
from attngrade.control import EVERY, control, controlled
from attngrade.journal import Journal
from attngrade.pool import Crew, grade_far
from attngrade.settings import NoSandbox, Settings, Stopped, fingerprint, secret_in

SETTINGS = Settings(b"s" * 32)


def scores(out: Path) -> dict[str, dict]:
    with (out / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


@pytest.fixture
def folder(tmp_path):
    """A class of one."""
    (tmp_path / "class").mkdir()
    write(tmp_path / "class" / "anna.ipynb", SETUP, ANSWER, CHECK)
    return tmp_path / "class"


@pytest.fixture
def graded(monkeypatch):
    """The students that were graded; nothing is really run."""
    graded = []

    monkeypatch.setattr(grader, "grade", lambda *x: graded.append(x[0].student) or passes(*x))
    return graded


# Controls


def students(count: int) -> list[Order]:
    return [Order(f"s{k:03}", ()) for k in range(count)]


def graded_by(grade, journal, settings=SETTINGS, count=2 * EVERY + 1):
    with ThreadPoolExecutor(2) as threads:
        crew = Crew(threads, lambda: 2, grade)
        for result in controlled(crew, students(count), settings, journal):
            journal.add(result)
            yield result


def test_controls_stand_at_the_start_between_and_at_the_end(tmp_path):
    seen = []
    with Journal(tmp_path, "key") as journal:
        noted = graded_by(lambda *x: seen.append(x[0].student) or passes(*x), journal)
        assert len(list(noted)) == 2 * EVERY + 1
        assert journal.unproven == 0
    controls = [k for k, student in enumerate(seen) if student == control().student]
    assert (controls[0], controls[-1]) == (0, len(seen) - 1)
    between = [b - a for a, b in pairwise(controls)]
    assert between == pytest.approx([EVERY + 1, EVERY + 1, 2], abs=1)


def test_a_control_that_fails_stops_the_run_and_withdraws_what_is_unproven(tmp_path):
    controls = []

    def third_fails(order, settings):
        result = passes(order, settings)
        if order.student != control().student:
            return result
        controls.append(order)
        return result if len(controls) < 3 else replace(result, files=())

    with Journal(tmp_path, "key") as journal:
        with pytest.raises(Stopped, match=r"did not pass: .* does not count"):
            list(graded_by(third_fails, journal))
        # two are graded at once, so up to two of the first fifty may end after the control began
        kept = {student for student, _ in journal.known}
    assert EVERY - 2 <= len(kept) <= EVERY
    assert kept <= {x.student for x in students(EVERY)}


def test_where_the_first_control_fails_nobody_is_graded(folder, tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(grader, "grade", lambda order, _: seen.append(order.student) or 1 / 0)
    assert main([str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "did not pass: Grading it failed, with ZeroDivisionError" in capsys.readouterr().err
    assert seen == [control().student]
    assert not (tmp_path / "out" / "scores.csv").exists()


def test_a_demanded_sandbox_is_looked_for_before_anybody_runs(tmp_path):
    def without(order, settings):
        assert order.student == control().student
        return replace(passes(order, settings), official=False, protections=(("a wall", "gone"),))

    demanded = replace(SETTINGS, sandbox=True)
    with Journal(tmp_path, "key") as journal, pytest.raises(NoSandbox, match="gone"):
        list(graded_by(without, journal, demanded))


def test_who_was_not_graded_is_no_zero_and_is_tried_again(folder, tmp_path, capsys, monkeypatch):
    def fails(order, settings):
        if order.student == "anna":
            raise OSError("no room")
        return passes(order, settings)

    write(folder / "ben.ipynb", SETUP, CHECK)
    command = [str(folder), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(grader, "grade", fails)
    assert main(command) == 0
    assert "1 not graded, as the grader failed there" in capsys.readouterr().out
    row = scores(tmp_path / "out")["anna"]
    assert row["total"] == ""
    assert "Grading it failed, with OSError: no room." in row["notes"]
    monkeypatch.setattr(grader, "grade", passes)
    assert main(command) == 0
    assert "not graded" not in capsys.readouterr().out
    assert {x["total"] for x in scores(tmp_path / "out").values()} == {"3"}


# Who grades


def test_no_more_orders_are_at_hand_than_there_are_workers():
    taken, done, most = [], [], []

    def slowly(order, settings):
        most.append(len(taken) - len(done))
        time.sleep(0.005)
        return passes(order, settings)

    def orders():
        for order in students(20):
            taken.append(order)
            yield order, SETTINGS, None

    with ThreadPoolExecutor(8) as threads:
        for _, result in Crew(threads, lambda: 3, slowly).results(orders()):
            done.append(result)
    assert sorted(x.student for x in done) == [x.student for x in taken]
    assert max(most) <= 3


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("attngrade.pool.PATIENCE", 0.1)
    never = threading.Event()
    with ThreadPoolExecutor() as threads:
        waiting = Crew(threads, lambda: 0, lambda *_: never.wait())
        with pytest.raises(Stopped, match="There is no worker"):
            next(waiting.results([(students(1)[0], SETTINGS, None)]))
        never.set()


def test_a_cluster_that_is_not_there_is_a_plain_sentence(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("attngrade.pool.ANSWERING", 0.5)
    command = [str(folder), "--out", str(tmp_path / "out"), "--scheduler"]
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        assert main([*command, address]) == 2
        assert f"No scheduler of dask answers at {address}" in capsys.readouterr().err


def test_a_worker_of_dask_grades_and_who_breaks_it_is_not_graded(folder, tmp_path, capsys):
    """It is far from the folder of the class, and a daemon, which may not start processes."""
    write(folder / "broken.ipynb", SETUP, ANSWER, CHECK)
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "local_directory": str(tmp_path / "dask")}  # fmt: skip
    breaks = {"preload": failing_grader.__file__, "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=1, threads_per_worker=2, **here, **breaks) as cluster:
        command = [str(folder), "--out", str(tmp_path / "out"), "--scheduler"]
        assert main([*command, cluster.scheduler_address]) == 0, capsys.readouterr().err
    found = scores(tmp_path / "out")
    assert found["anna"]["causal_mask"] == "1"
    assert "RuntimeError: it is broken" in found["broken"]["notes"]
    assert found["broken"]["total"] == ""
    journal = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    kept = {student for line in journal if (student := json.loads(line).get("student"))}
    assert kept == {"anna"}, "what failed is tried again by the next run"


# The cache key


def test_another_secret_or_setting_has_another_cache_key():
    one = Settings(b"s" * 32, course="1")
    assert one.cache_key == replace(one, sandbox=True).cache_key
    changes = {"secret": b"t" * 32, "seconds": 60, "memory": 2048, "chapters": ("masks",)}
    keys = [replace(one, **{key: x}).cache_key for key, x in (changes | {"course": "2"}).items()]
    assert len({one.cache_key, *keys}) == 6
    assert "ssss" not in repr(one)


def test_who_installs_a_package_has_the_class_graded_again(monkeypatch):
    with pytest.raises(Stopped, match="Install the same everywhere"):
        grade_far(students(1)[0], replace(SETTINGS, course="0.0 another"))
    before = fingerprint.__wrapped__()
    more = [Mock(version="0.8.0")]
    more[0].name = "einops"
    monkeypatch.setattr("importlib.metadata.distributions", lambda: more)
    assert fingerprint.__wrapped__() != before


def test_a_secret_is_made_once_and_for_its_owner_only(tmp_path):
    secret = secret_in(tmp_path / "secret")
    assert len(secret) == 32
    assert secret_in(tmp_path / "secret") == secret != secret_in(tmp_path / "other")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "short").write_bytes(b"1234")
    with pytest.raises(ValueError, match="has 4 bytes; a secret needs 16 or more"):
        secret_in(tmp_path / "short")


# What the command refuses


REFUSED = {
    "{}/nowhere --out {}/out": "No such file or directory",
    "{}/empty --out {}/out": "has nothing to grade in it",
    "{}/class --out {}/class/anna.ipynb": "is a file; --out needs a folder",
    "{}/class --out {}/out --secret-file {}/none/x": "No such file",
    "{}/class --out /usr/results": "Every submission could read /usr/results",
    "{}/class --out {}/out --workers 0": "'0' is no whole number above 0",
    "{}/class --out {}/out --seconds -3": "is no whole number above 0",
    "{}/class --out {}/out --chapters 99": "'99' names no chapters with exercises; they are dot_product, masks,",
    "{}/class --out {}/out --chapters ,": "names no chapters",
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_cannot_be_done_is_a_plain_sentence(folder, tmp_path, graded, capsys, command):
    (tmp_path / "empty").mkdir()
    try:
        code = main(command.replace("{}", str(tmp_path)).split())
    except SystemExit as ended:  # so argparse ends
        code = ended.code
    said = capsys.readouterr().err
    assert code == 2
    assert REFUSED[command] in said
    assert "attngrade: " in said
    assert not graded
    assert not Path("/usr/results").exists()


def test_what_is_known_is_not_graded_again(folder, tmp_path, graded, monkeypatch):
    command = [str(folder), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert Counter(graded) == {"anna": 1, control().student: 2}
    assert main(command) == 0
    assert len(graded) == 3, "no control either, as there is nothing to prove"
    monkeypatch.setattr("attngrade.cli.fingerprint", lambda: "another")
    assert main(command) == 0
    assert graded.count("anna") == 2


def test_a_folder_of_countless_files_is_bounded(folder, tmp_path, graded, monkeypatch):
    monkeypatch.setattr("attngrade.pipeline.MOST_FILES", 3)
    monkeypatch.setattr("attngrade.pipeline.MOST_BYTES", 400)
    (folder / "mallory").mkdir()
    for k in range(5):
        (folder / "mallory" / f"{k}.ipynb").write_text("x" * 150)
    orders = []
    monkeypatch.setattr(grader, "grade", lambda *x: orders.append(x[0]) or passes(*x))
    assert main([str(folder), "--out", str(tmp_path / "out")]) == 0
    files = next(x.files for x in orders if x.student == "mallory")
    assert [file.data is not None for file in files] == [True, True, False, False]
    assert files[-1].name == "mallory, and 2 more"
