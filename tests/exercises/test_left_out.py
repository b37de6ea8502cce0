"""An exercise whose package is missing: no point for free, none lost, and one clear line that says so."""

import importlib.util
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.book.notebooks import MASTERS, ROOT

from attncourse.grading import CheckFailed, check, load, names, status
from attncourse.grading.run_notebook import grade_notebook
from attngrade import File, Graded, Result, judge
from attngrade.session import not_found
from attngrade.settings import Settings, fingerprint
from attngrade.table import Run, tabulate

NAME = "attention_tile"
NOTEBOOK = import_module("attncourse.grading.check")  # the name in the package is the function
LINE = (
    "Triton is not installed here, so nothing can be judged; this exercise does not count in the total "
    "(on Linux, `pip install triton` brings it)"
)
MASTER = next(path for path in MASTERS if path.stem.endswith("flash_gpu"))


@pytest.fixture
def without_triton(monkeypatch):
    monkeypatch.setattr(NOTEBOOK, "_verdicts", {})
    monkeypatch.setattr(
        "attncourse.grading.verdict.find_spec",
        lambda name: None if name == "triton" else importlib.util.find_spec(name),
    )


@pytest.mark.usefixtures("without_triton")
@pytest.mark.parametrize("answer", [None, 7, load(NAME).right])
def test_any_answer_is_left_out(answer, capsys):
    check(NAME, answer)
    assert capsys.readouterr().out == f"{NAME}: left out\n  {LINE}\n"
    status("flash_gpu")
    rows = capsys.readouterr().out.splitlines()
    assert rows[names("flash_gpu").index(NAME)].split() == [NAME, "0", "of", "0", "left", "out"]
    total = sum(load(x).points for x in names("flash_gpu") if x != NAME)
    assert rows[-1].split() == ["total", "0", "of", str(total)]


@pytest.mark.usefixtures("without_triton")
def test_nbgrader_which_cannot_leave_out_gives_nothing_for_free(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(CheckFailed, match="cannot be judged. Triton .* give these points by hand"):
        check(NAME, None)


@pytest.mark.usefixtures("without_triton")
def test_the_notebook_runs_and_is_full_without_it(tmp_path: Path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['triton'] = None\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    score = grade_notebook(MASTER)
    assert score.full
    assert score.problems == []
    assert score.out_of == sum(load(x).out_of for x in names("flash_gpu")) > 0
    assert [v.name for v in score.verdicts if v.status == "left out"] == [NAME]


@pytest.mark.usefixtures("without_triton")
def test_a_class_is_graded_without_it(monkeypatch):
    monkeypatch.setattr(judge, "spend", lambda: None)  # a judge's limits are not for this process
    settings, parent = Settings(secret=b"secret"), SimpleNamespace(send=lambda told: None)
    file = judge._File(0, File("anna.ipynb", "d", b""), settings, judge.Progress(), parent)
    session = SimpleNamespace(judge=lambda exercise, seed: not_found(exercise))
    verdicts = tuple(file._verdict(load(x), session) for x in names("flash_gpu"))
    found = {v.name: (v.status, v.out_of) for v in verdicts}
    assert found.pop(NAME) == ("left out", 0)
    assert set(found.values()) == {("not found", load(x).points) for x in found}
    assert LINE in verdicts[names("flash_gpu").index(NAME)].findings
    result = Result("anna", "d", (Graded("anna.ipynb", "d", verdicts),))
    table = tabulate([result], Run(official=True))
    assert table.out_of == sum(load(x).points for x in found)
    assert {e.name: e.out_of for e in table.exercises}[NAME] == 0
    assert table.rows[0].complete


def test_workers_that_leave_out_something_else_are_told_apart(without_triton):
    fingerprint.cache_clear()
    lacking = fingerprint()
    fingerprint.cache_clear()
    assert lacking.endswith(f", without {NAME}")
