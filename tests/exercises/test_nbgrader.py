"""The real nbgrader takes our masters: release version, full, wrong and untouched answers."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from support.book.notebooks import MASTERS, ROOT, chapter, each, read
from support.grader.nbgrader_course import CONFIG, KEPT, NAME, cut, mark, write

from attncourse.grading import CheckFailed, check, load, names

POINTS = {name: load(name).points for name in KEPT}
WRONG = "def causal_mask(n, m):\n    return torch.ones(n, m).bool()"


@pytest.fixture(scope="module")
def nbgrader():
    """Runs a command of nbgrader, which itself looks for its tools on the path."""
    beside = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(course: Path, *arguments: str) -> None:
        own = {"JUPYTER_CONFIG_DIR": str(course), "JUPYTER_DATA_DIR": str(course)}
        how = {"cwd": course, "env": os.environ | beside | own, "timeout": 500}
        command = [sys.executable, "-m", "nbgrader", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, **how)
        assert ran.returncode == 0, ran.stderr

    return run


@pytest.fixture(scope="module")
def course(tmp_path_factory, nbgrader) -> Path:
    """A course folder in which nbgrader released the notebook and graded two students."""
    course = tmp_path_factory.mktemp("course")
    (course / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    master = cut(ROOT / "exercises" / "solutions" / f"{NAME}.ipynb")
    untouched = cut(ROOT / "exercises" / f"{NAME}.ipynb")
    other = deepcopy(master)
    for cell, stub in zip(other.cells, untouched.cells, strict=True):
        told = {f"{KEPT[0]}_answer": WRONG, f"{KEPT[2]}_answer": stub.source}
        cell.source = told.get(mark(cell).get("grade_id"), cell.source)
    handed_in = {"sam": master, "kim": other}
    write(master, course / "source" / "masks" / f"{NAME}.ipynb")
    nbgrader(course, "generate_assignment", "masks", "--create")
    release = read(course / "release" / "masks" / f"{NAME}.ipynb")
    for student, notebook in handed_in.items():
        filled = deepcopy(release)
        for theirs, ours in zip(filled.cells, notebook.cells, strict=True):
            theirs.source = ours.source
        write(filled, course / "submitted" / student / "masks" / f"{NAME}.ipynb")
    nbgrader(course, "autograde", "masks", "--create")
    return course


def scores(course: Path, student: str) -> dict[str, float]:
    """The points by grade id, as nbgrader's own database has them."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as book:
        grades = book.find_submission_notebook(NAME, "masks", student).grades
        assert {grade.name: grade.max_score for grade in grades} == POINTS
        return {grade.name: grade.score for grade in grades}


def test_release_is_the_student_notebook(course):
    release = read(course / "release" / "masks" / f"{NAME}.ipynb")
    student = cut(ROOT / "exercises" / f"{NAME}.ipynb")
    theirs, ours = ([c.source for c in n.cells] for n in (release, student))
    # nbgrader has one stub for all; ours does not raise where it stands outside of a function
    assert [x.removesuffix("\nraise NotImplementedError") for x in theirs] == ours
    assert "SOLUTION" not in nbformat.writes(release)


def test_full_points_for_the_solution(course):
    assert scores(course, "sam") == POINTS


def test_wrong_and_untouched_answers_earn_nothing_and_cost_nothing_else(course):
    assert scores(course, "kim") == {KEPT[0]: 0, KEPT[1]: POINTS[KEPT[1]], KEPT[2]: 0}


def test_export_sums_the_points(course, nbgrader):
    nbgrader(course, "export", "--to", "grades.csv")
    header, *rows = (course / "grades.csv").read_text(encoding="utf-8").splitlines()
    table = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    sums = {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in table}
    assert sums == {"sam": (4, 4), "kim": (POINTS[KEPT[1]], 4)}


@each(MASTERS)
def test_nbgrader_counts_the_points_of_the_exercises(path):
    from nbgrader.utils import determine_grade, is_grade

    cells = [cell for cell in read(path).cells if is_grade(cell)]
    counted = {mark(c)["grade_id"]: determine_grade(c)[1] for c in cells}
    assert counted == {name: load(name).points for name in counted}
    assert counted.keys() == set(names(chapter(path)))


def test_a_stub_raises_only_under_nbgrader(monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    check("leaking_loss", None)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(CheckFailed, match="leaking_loss is not attempted yet. Replace the stub"):
        check("leaking_loss", None)
