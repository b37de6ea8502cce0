"""Hostile notebooks of the test suite, handed to nbgrader and to the grader of this course.

python benchmarks/attacks_nbgrader.py        ten minutes; needs bubblewrap

nbgrader runs them with the rights of whoever calls it, so all of this runs behind a wall: without network, and with
no place to write but an empty /tmp.
"""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from results import write_table

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from grader.attacks import WRONG, Attack, all_of, right  # noqa: E402
from support.book.notebooks import read  # noqa: E402
from support.grader import nbgrader_course as course  # noqa: E402
from support.grader.submission import CHECK, SETUP  # noqa: E402

from attngrade import File, Order  # noqa: E402
from attngrade.grader import grade  # noqa: E402
from attngrade.settings import Settings  # noqa: E402

EXERCISE, KEPT = "causal_mask", ("causal_mask",)
FAMILIES = ("comparisons", "checks", "liars", "peeking")
WALL = "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-net --unshare-pid --die-with-parent"
INSIDE = "ATTNCOURSE_BEHIND_THE_WALL"


def attacks() -> dict[str, Attack]:
    """By the name of a student: attacks on one exercise that stand in their cells alone."""
    return {
        f"{family}{k}": attack
        for family in FAMILIES
        for k, attack in enumerate(all_of(family))
        if attack.exercise == EXERCISE and attack.plain
    }


def by_attngrade(cells: tuple[str, ...], settings: Settings) -> float:
    """The points that the grader of this course gives to these cells."""
    notebook = new_notebook(cells=[*map(new_code_cell, (SETUP, *cells, CHECK))])
    data = nbformat.writes(notebook).encode()
    file = File("attack.ipynb", hashlib.sha256(data).hexdigest(), data)
    result = grade(Order("mallory", (file,)), settings)
    assert result.complete, result
    return sum(verdict.points for verdict in result.files[0].verdicts)


def by_nbgrader(students: dict[str, tuple[str, ...]], folder: Path) -> dict[str, float]:
    """The points that nbgrader gives to the cells of each student; nothing for what it gave up."""

    def run(*arguments: str) -> None:
        own = {"JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_DATA_DIR": str(folder)}
        path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, "-m", "nbgrader", *arguments]
        subprocess.run(command, cwd=folder, env=os.environ | own | path, capture_output=True)

    (folder / "nbgrader_config.py").write_text(course.CONFIG, encoding="utf-8")
    name = Path("masks") / f"{course.NAME}.ipynb"
    master = course.cut(ROOT / "exercises" / "solutions" / name.name, KEPT)
    course.write(master, folder / "source" / name)
    run("generate_assignment", "masks", "--create")
    release = read(folder / "release" / name)
    for student, cells in students.items():
        filled = deepcopy(release)
        ids = [course.mark(cell).get("grade_id") for cell in filled.cells]
        place = ids.index(f"{KEPT[0]}_answer")
        filled.cells[place].source = cells[-1]
        filled.cells[place:place] = map(new_code_cell, cells[:-1])
        course.write(filled, folder / "submitted" / student / name)
    run("autograde", "masks", "--create")
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention") as book:
        given = book.assignment_submissions("masks")
        return {x.student_id: x.score for x in given}


def main() -> None:
    """Grade them in both ways and print the table."""
    found = attacks()
    honest = {"right": (right(EXERCISE),), "wrong": (WRONG[EXERCISE],)}
    students = {student: attack.cells for student, attack in found.items()} | honest
    theirs = by_nbgrader(students, Path(tempfile.mkdtemp()))
    settings = Settings(secrets.token_bytes(32), seconds=60)
    ours = {student: by_attngrade(cells, settings) for student, cells in students.items()}
    for by in (theirs, ours):
        assert (by["right"], by["wrong"]) == (1, 0), by
    there = Counter(x.family for x in found.values())
    fooled = [Counter(found[s].family for s in found if by.get(s)) for by in (theirs, ours)]
    rows = [[family, there[family], *(by[family] for by in fooled)] for family in FAMILIES]
    table = {
        "caption": "Hostile notebooks that earned a point",
        "note": f"All answer {EXERCISE} wrongly. nbgrader's autograde and attngrade graded the same ones in one run.",
        "columns": ["family", "notebooks", "nbgrader", "attngrade"],
        "rows": [*rows, ["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])]],
    }
    Path(os.environ[INSIDE]).write_text(json.dumps(table), encoding="utf-8")


if __name__ == "__main__":
    if INSIDE in os.environ:
        main()
        os._exit(0)
    with tempfile.TemporaryDirectory() as box:
        wall = f"{WALL} --bind {box} /tmp --setenv {INSIDE} /tmp/table.json --setenv HOME /tmp --"
        subprocess.run([*wall.split(), sys.executable, __file__], check=True)
        table = json.loads((Path(box) / "table.json").read_text(encoding="utf-8"))
    write_table("attacks_nbgrader", **table)
