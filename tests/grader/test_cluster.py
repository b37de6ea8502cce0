"""Workers of dask that die, break or lack a sandbox; what the command refuses, and why."""

import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from distributed import Client, KilledWorker, LocalCluster, Security
from support import failing_grader
from support.notebooks_fixture import ANSWER, CHECK, SETUP, write
from support.results import result

from attngrade.batch import main
from attngrade.cluster import Crew, local
from attngrade.duty import Order, Settings, Stopped, fingerprint, grade
from attngrade.journal import Journal
from attngrade.marking import handed_in, secret_in


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
        preload=failing_grader.__file__,
        silence_logs=logging.CRITICAL,
        env={failing_grader.DIARY: str(diary)},
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


def test_nobody_else_gives_orders_to_our_workers():
    pytest.importorskip("cryptography")
    with local(1) as client:
        address = client.scheduler.address
        assert client.submit(abs, -3).result() == 3
        with pytest.raises(OSError, match="TLS|Timed out|closed"):
            Client(address.replace("tls:", "tcp:"), timeout=1)
        with pytest.raises(OSError, match="TLS|Timed out|closed"):
            Client(address, security=Security.temporary(), timeout=1)


def test_suspects_are_tried_one_at_a_time():
    """Else who dies beside the one to blame would be blamed as well."""
    client, going, most = Mock(), [], []
    client.scheduler_info.return_value = {"workers": {"a": {}, "b": {}}}

    def submit(function, group, settings, pure):
        future = Mock(status="error", key=len(most))
        future.exception.return_value = KilledWorker("grade", None, 0)
        going.append(future)
        most.append(len(going))

        def later(tell):
            threading.Timer(0.02, lambda: (going.remove(future), tell(future))).start()

        future.add_done_callback = later
        return future

    client.submit = submit
    orders = [Order(f"s{k}", f"s{k}.ipynb", "d", b"") for k in range(6)]
    found = list(Crew(client, Settings(b"s" * 32, 60, 4096)).results(orders))
    assert {x.graded.student for x in found} == {x.student for x in orders}
    assert max(most[:-6]) == 4
    assert most[-6:] == [1] * 6


def test_one_worker_grades_one_submission_at_a_time(monkeypatch):
    """Judging seeds the generator of the whole process: two threads would disturb each other."""
    going = []

    def slowly(order, settings):
        going.append(order)
        time.sleep(0.05)
        return len(going), going.remove(order)

    monkeypatch.setattr("attngrade.duty._grade", slowly)
    settings = Settings(b"s" * 32, 60, 4096, course=fingerprint())
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda k: grade([k], settings), range(3)))
    assert found == [[(1, None)]] * 3


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("attngrade.cluster.PATIENCE", 2)
    client = Mock()
    client.scheduler_info.return_value = {"workers": {}}
    crew = Crew(client, Settings(b"s" * 32, 60, 4096))
    with pytest.raises(Stopped, match="There is no worker"):
        next(crew.results([Order("anna", "anna.ipynb", "d", b"")]))


def test_a_cluster_that_is_not_there_is_a_plain_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("attngrade.cluster.ANSWERING", 0.5)
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
    code, said = main([*command, "--require-sandbox"]), capsys.readouterr().err
    assert code == 3, said
    assert "apt install bubblewrap" in said
    assert (out / "journal.jsonl").read_text() == before


# What decides about points decides about the mark


def test_the_mark_is_another_for_another_secret_or_setting():
    one = Settings(b"s" * 32, 120, 4096, (), False, "1")
    assert one.mark == Settings(b"s" * 32, 120, 4096, (), True, "1").mark
    others = [
        Settings(b"t" * 32, 120, 4096, (), False, "1"),
        Settings(b"s" * 32, 60, 4096, (), False, "1"),
        Settings(b"s" * 32, 120, 2048, (), False, "1"),
        Settings(b"s" * 32, 120, 4096, ("masks",), False, "1"),
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
    assert said.startswith("attngrade: ")
    assert not (tmp_path / "out" / "scores.csv").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--workers", "0"], "'0' is no whole number above 0"),
        (["--seconds", "-3"], "is no whole number above 0"),
        (
            ["--chapters", "99"],
            "'99' names no chapters with exercises; they are dot_product, masks,",
        ),
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
    monkeypatch.setattr("attngrade.cluster.LocalCluster", None)  # none is needed
    assert main([str(tmp_path / "class"), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert "No submission could be graded; the table says why." in said.err
    assert "official" not in said.out
    assert "is a link" in (tmp_path / "out" / "scores.csv").read_text()
