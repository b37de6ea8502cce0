"""Write the student notebooks from the masters in exercises/solutions/.

    python tools/make_exercises.py            write them
    python tools/make_exercises.py --check    exit 1 if one is out of date

A master holds statements, solutions in ``### BEGIN SOLUTION`` regions, and ``check`` cells. Cards,
hints and nbgrader's metadata are filled in from the exercises themselves, so they are written once;
the first cell, which installs the course, is that of `tools/bootstrap.py`.
A cell keeps its id, in the master and in the student notebook.
"""

import re
import sys
from copy import deepcopy
from pathlib import Path

import bootstrap
import cell_ids
import nbformat
from nbgrader.preprocessors import ClearOutput, ClearSolutions, LockCells

from attncourse.grading import load, names
from attncourse.grading.exercises import chapter_of

ROOT = Path(__file__).resolve().parent.parent
MASTERS = ROOT / "exercises" / "solutions"
CHECK = re.compile(r'^check\("(\w+)"', re.MULTILINE)
KINDS = ("Implement", "Repair", "Predict", "Measure", "Train")


def complete(master) -> None:
    """Fill in cards, hints and nbgrader's metadata of a master, in place."""
    cells = []
    for cell in master.cells:
        if "hints" in cell.metadata.get("tags", []):
            continue  # written anew below its check cell
        cells.append(cell)
        found = CHECK.findall(cell.source) if cell.cell_type == "code" else []
        if "### BEGIN SOLUTION" in cell.source:
            cell.metadata["nbgrader"] = _metadata("answer", solution=True)
        if found:
            exercise = load(found[0])
            cell.metadata["nbgrader"] = _metadata(exercise.name, points=exercise.points)
            _answer_above(cells).metadata["nbgrader"]["grade_id"] = f"{exercise.name}_answer"
            _write_card(cells, exercise)
            cells.append(_hints(exercise, id=f"{cell.id[:58]}-hints"))
    master.cells = cells


def _metadata(grade_id: str, points: int | None = None, solution: bool = False) -> dict:
    graded = {} if points is None else {"points": points}
    return graded | {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": points is not None,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }


def _answer_above(cells: list):
    return next(cell for cell in reversed(cells) if "### BEGIN SOLUTION" in cell.source)


def _write_card(cells: list, exercise) -> None:
    """The second line of the nearest heading above is the card; its number is that of the exercise."""
    heading = next(c for c in reversed(cells) if c.source.startswith("## "))
    number = names(chapter_of(exercise.name)).index(exercise.name) + 1
    if not heading.source.startswith(f"## {number}. "):
        raise ValueError(
            f"{exercise.name} is number {number} of its chapter; got {heading.source[:40]!r}"
        )
    lines = [
        line
        for line in heading.source.split("\n")
        if not line.startswith(tuple(f"*{k} ·" for k in KINDS))
    ]
    text = "\n".join(lines[1:]).strip()
    heading.source = f"{lines[0]}\n\n*{exercise.card()}*\n\n{text}"


def _hints(exercise, id: str):
    folded = "\n\n".join(
        f"<details><summary>Hint {k}</summary>\n\n{hint}\n\n</details>"
        for k, hint in enumerate(exercise.hints, start=1)
    )
    return nbformat.v4.new_markdown_cell(folded, id=id, metadata={"tags": ["hints"]})


def student(master):
    """The master without solutions and outputs."""
    notebook = deepcopy(master)
    for index, cell in enumerate(notebook.cells):
        if "### BEGIN SOLUTION" in cell.source:
            # A stub inside a function raises when it is called; at the top level it must not.
            inside = re.search(r"^ +### BEGIN SOLUTION", cell.source, re.MULTILINE)
            stub = "# your code here\nraise NotImplementedError" if inside else "# your code here"
            clear = ClearSolutions(code_stub={"python": stub})
            notebook.cells[index], _ = clear.preprocess_cell(cell, {"language": "python"}, index)
        if cell.cell_type == "code":
            cell.metadata.pop("mystnb", None)
    for step in (ClearOutput(), LockCells()):
        notebook, _ = step.preprocess(notebook, {})
    return notebook


def main(check: bool) -> int:
    stale = []
    for path in sorted(MASTERS.glob("*.ipynb")):
        master = cell_ids.read(path)
        bootstrap.fill(master, bootstrap.rendered())
        complete(master)
        for target, notebook in ((path, master), (MASTERS.parent / path.name, student(master))):
            text = nbformat.writes(notebook) + "\n"
            if target.exists() and target.read_text(encoding="utf-8") == text:
                continue
            stale.append(target.relative_to(ROOT))
            if not check:
                target.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path}: {'out of date, run: make exercises' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
