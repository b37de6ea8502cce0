"""Workers of dask that die, break or lack a sandbox; the journal; what the command refuses."""

import hashlib
import json
import logging
import os
import shutil
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import deadly
import pytest
from distributed import LocalCluster
from handmade import ANSWER, CHECK, SETUP, write

from attncourse.grading.batch import main
from attncourse.grading.classroom import Graded
from attncourse.grading.classroom.cluster import Crew
from attncourse.grading.classroom.duty import Order, Settings, Stopped, fingerprint
from attncourse.grading.classroom.journal import Busy, Journal, Result, locked
from attncourse.grading.classroom.marking import handed_in, secret_in
from attncourse.grading.exercise import Verdict

VERDICTS = (
    Verdict("02.causal_mask", "failed", 0, 1, ("called with 3, 5: wrong", "\ud800"), "The mask."),
    Verdict("02.empty_row", "passed", 3, 3),
)
PROTECTIONS = (("a wall", "in force"), ("a roof", "it leaks"))


def result(student="anna", digest="d1", **more) -> Result:
    graded = Graded(student, f"{student}.ipynb", digest, VERDICTS, ("cell 3 raised ValueError",))
    return Result(graded, "likeness", False, PROTECTIONS, **more)


def scores(out: Path) -> dict[str, dict]:
    return {s["student"]: s for s in json.loads((out / "scores.json").read_text())["students"]}


# A cluster that somebody else has started


@pytest.fixture(scope="module")
def diary(tmp_path_factory):
    return tmp_path_factory.mktemp("diary") / "graded.txt"


@pytest.fixture(scope="module")
def cluster(diary, tmp_path_factory):
    """Two workers with two threads each, far from the folder of the class, whose graders can die."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
        preload=deadly.__file__,
        silence_logs=logging.CRITICAL,
        env={deadly.DIARY: str(diary)},
    ) as cluster:
        yield cluster


def test_who_kills_workers_is_given_up_and_nobody_else_is(cluster, diary, tmp_path, capsys):
    folder, out = tmp_path / "class", tmp_path / "out"
    folder.mkdir()
    innocent = [f"s{k}" for k in range(8)]
    for name in innocent:
        write(folder / f"{name}.ipynb", SETUP, f"{ANSWER}  # {name}", CHECK)
    write(folder / "s2_killer.ipynb", SETUP, ANSWER, CHECK, "KILLS = True")
    write(folder / "s4_breaker.ipynb", SETUP, ANSWER, CHECK, "BREAKS = True")
    before = cluster.scheduler.allowed_failures
    command = [str(folder), "--out", str(out), "--scheduler", cluster.scheduler_address]
    assert main(command) == 0, capsys.readouterr().err
    found = scores(out)
    assert {name: found[name]["points"] for name in innocent} == dict.fromkeys(innocent, 1)
    assert found["s2_killer"]["problems"] == [
        "The grader itself ended twice on this notebook; look at it by hand."
    ]
    assert "RuntimeError: it is broken" in found["s4_breaker"]["problems"][0]
    tries = Counter(diary.read_text().split())
    assert tries["s2_killer"] == 2
    assert set(tries) == {*innocent, "s2_killer", "s4_breaker"}
    assert cluster.scheduler.allowed_failures == before
    journal = (out / "journal.jsonl").read_text().splitlines()
    kept = {json.loads(line)["graded"]["student"] for line in journal}
    assert kept == set(innocent), "what failed is tried again by the next run"


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("attncourse.grading.classroom.cluster.PATIENCE", 2)
    client = Mock()
    client.scheduler_info.return_value = {"workers": {}}
    crew = Crew(client, Settings(b"s" * 32, 60, 4096))
    with pytest.raises(Stopped, match="There is no worker"):
        next(crew.results([Order("anna", "anna.ipynb", "d", b"")]))


def test_a_cluster_that_is_not_there_is_a_plain_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("attncourse.grading.classroom.cluster.ANSWERING", 0.5)
    write(tmp_path / "anna.ipynb", SETUP, ANSWER, CHECK)
    command = [str(tmp_path), "--out", str(tmp_path / "out"), "--scheduler"]
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        assert main([*command, address]) == 2
        assert f"No scheduler of dask answers at {address}" in capsys.readouterr().err


def test_without_a_sandbox_scores_are_unofficial_or_there_are_none(tmp_path, capsys, monkeypatch):
    folder, out = tmp_path / "class", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    digest = hashlib.sha256(write(folder / "anna.ipynb", SETUP, ANSWER, CHECK).read_bytes())
    settings = Settings(secret_in(out / "secret"), 120, 4096, course=fingerprint())
    with Journal(out, settings.mark) as journal:
        journal.add(result(digest=digest.hexdigest()))
    before = (out / "journal.jsonl").read_text()
    command = [str(folder), "--out", str(out), "--workers", "1"]
    assert main(command) == 0
    assert "These scores are unofficial: a roof: it leaks." in capsys.readouterr().out
    # it ran without a sandbox, which does not count where one is demanded
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*command, "--require-sandbox"]) == 3
    assert "apt install bubblewrap" in capsys.readouterr().err
    assert (out / "journal.jsonl").read_text() == before


# The journal


def test_what_is_written_is_read(tmp_path):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result())
        assert journal.find("anna", "anna.ipynb", "d1") == result()
    with Journal(tmp_path, "mark") as journal:
        assert journal.find("anna", "anna.ipynb", "d1") == result()
        assert journal.find("anna", "anna.ipynb", "d2") is None
        assert journal.find("ben", "anna.ipynb", "d1") is None
    with Journal(tmp_path, "another") as journal:
        assert journal.find("anna", "anna.ipynb", "d1") is None


@pytest.mark.parametrize("length", [1, 40, -1])
def test_a_half_written_line_is_cut_off_and_overwritten(tmp_path, length):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("anna"))
        journal.add(result("ben"))
    whole = (tmp_path / "journal.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    end = first + length if length > 0 else len(whole) + length
    (tmp_path / "journal.jsonl").write_bytes(whole[:end])
    with Journal(tmp_path, "mark") as journal:
        assert journal.find("anna", "anna.ipynb", "d1")
        assert not journal.find("ben", "ben.ipynb", "d1")
        journal.add(result("ben"))
    assert (tmp_path / "journal.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["not json", "[]", "{}", '{"mark": "mark"}', '{"mark": "mark", "graded": 3}']
)
def test_a_spoilt_line_is_as_good_as_none(tmp_path, line):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("anna"))
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("ben"))
    with Journal(tmp_path, "mark") as journal:
        assert {key[0] for key in journal.known} == {"anna", "ben"}


def test_two_graders_cannot_share_a_folder(tmp_path, capsys):
    write(tmp_path / "anna.ipynb", SETUP, ANSWER, CHECK)
    out = tmp_path / "out"
    out.mkdir()
    with locked(out):
        with pytest.raises(Busy), locked(out):
            pass
        assert main([str(tmp_path), "--out", str(out)]) == 2
    assert "Another attncourse-grade is writing into" in capsys.readouterr().err
    with locked(out):
        pass


# What decides about points decides about the mark


def test_the_mark_is_another_for_another_secret_or_setting():
    one = Settings(b"s" * 32, 120, 4096, (), False, "1")
    assert one.mark == Settings(b"s" * 32, 120, 4096, (), True, "1").mark
    others = [
        Settings(b"t" * 32, 120, 4096, (), False, "1"),
        Settings(b"s" * 32, 60, 4096, (), False, "1"),
        Settings(b"s" * 32, 120, 2048, (), False, "1"),
        Settings(b"s" * 32, 120, 4096, ("02",), False, "1"),
        Settings(b"s" * 32, 120, 4096, (), False, "2"),
    ]
    assert len({one.mark, *(x.mark for x in others)}) == 6
    assert "ssss" not in repr(one)


def test_a_secret_is_made_once(tmp_path):
    secret = secret_in(tmp_path / "secret")
    assert len(secret) == 32
    assert secret_in(tmp_path / "secret") == secret != secret_in(tmp_path / "other")
    (tmp_path / "short").write_bytes(b"1234")
    with pytest.raises(ValueError, match="has 4 bytes; a secret needs 16 or more"):
        secret_in(tmp_path / "short")


# What is no submission, and what the command refuses


@pytest.mark.parametrize("out", ["results", "a/b", "link"])
def test_our_own_files_are_no_submissions(tmp_path, out, monkeypatch):
    folder = tmp_path / "class"
    (folder / "a" / "b").mkdir(parents=True)
    write(folder / "anna.ipynb", SETUP)
    write(folder / "a" / "work.ipynb", SETUP)
    (folder / "secret").touch()
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "results").mkdir()
    (folder / "results" / "x.ipynb").touch()
    (folder / "a" / "b" / "x.ipynb").touch()
    files = {"anna.ipynb", "a/work.ipynb", "a/b/x.ipynb", "link", "results/x.ipynb"}
    ours = {file for file in files if file.startswith(out)}
    monkeypatch.chdir(folder)
    for root in (folder, Path(), Path("../class")):
        found = handed_in(root, root / out, root / "secret")
        assert {path.relative_to(root).as_posix() for _, path in found} == files - ours


def test_results_may_lie_around_the_submissions_but_not_in_their_place(tmp_path):
    folder = tmp_path / "class"
    folder.mkdir()
    write(folder / "anna.ipynb", SETUP)
    assert len(handed_in(folder, tmp_path)) == 1
    for same in (folder, tmp_path / "class" / ".." / "class"):
        with pytest.raises(ValueError, match="results need a folder of their own"):
            handed_in(folder, same)
    shutil.rmtree(folder)
    (folder / "results").mkdir(parents=True)
    with pytest.raises(ValueError, match="nothing to grade in it but our own"):
        handed_in(folder, folder / "results")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{}/nowhere", "--out", "{}/out"], "nowhere does not exist"),
        (["{}/empty", "--out", "{}/out"], "has nothing to grade in it"),
        (["{}/class", "--out", "{}/class/anna.ipynb"], "is a file; --out needs a folder"),
        (["{}/class", "--out", "{}/out", "--secret-file", "{}/none/x"], "No such file"),
    ],
)
def test_what_cannot_be_done_is_a_plain_sentence(tmp_path, capsys, arguments, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "class").mkdir()
    write(tmp_path / "class" / "anna.ipynb", SETUP)
    assert main([x.format(tmp_path) for x in arguments]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.startswith("attncourse-grade: ")
    assert not (tmp_path / "out" / "scores.csv").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--workers", "0"], "'0' is no whole number above 0"),
        (["--seconds", "-3"], "is no whole number above 0"),
        (["--chapters", "99"], "'99' names no chapters with exercises; they are 1, 2,"),
        (["--chapters", ","], "names no chapters"),
    ],
)
def test_a_bad_option_is_a_plain_sentence(tmp_path, capsys, options, says):
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path), "--out", str(tmp_path / "out"), *options])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_where_nothing_can_be_graded_the_table_says_why(tmp_path, capsys, monkeypatch):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "anna.ipynb").symlink_to("/etc/passwd")
    assert os.path.lexists(tmp_path / "class" / "anna.ipynb")
    monkeypatch.setattr("attncourse.grading.classroom.cluster.LocalCluster", None)  # none is needed
    assert main([str(tmp_path / "class"), "--out", str(tmp_path / "out")]) == 2
    assert "No submission could be graded; the table says why." in capsys.readouterr().err
    assert "is a link" in (tmp_path / "out" / "scores.csv").read_text()
