"""Write the student notebooks, and the cards of the package, from the masters.

    python tools/make_exercises.py            write them
    python tools/make_exercises.py --check    exit 1 if one is out of date

A master, in exercises/solutions/, holds cards, statements, solutions in ``### BEGIN SOLUTION``
regions, ``check`` cells, and hints below them. Cards and hints are copied to ``cards.json``, for
`check` and `hint`. nbgrader's metadata is filled in; the first cell, which installs the course, is
that of `tools/bootstrap.py`.
A cell keeps its id, in the master and in the student notebook.
"""

import json
import re
import sys
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import bootstrap
import cell_ids
import nbformat
from cards import card_at
from nbgrader.preprocessors import ClearOutput, ClearSolutions, LockCells

from attncourse.grading.card import Card

ROOT = Path(__file__).resolve().parent.parent
MASTERS = ROOT / "exercises" / "solutions"
CARDS = ROOT / "attncourse" / "grading" / "cards.json"
CHECK = re.compile(r'^check\("(\w+)"', re.MULTILINE)


def complete(master) -> dict[str, Card]:
    """Fill in nbgrader's metadata of a master, in place; the cards of its exercises.

    Raises:
        ValueError: a card or hints have another form; the message names the cell.
    """
    cards = {}
    for place, cell in enumerate(master.cells):
        found = CHECK.findall(cell.source) if cell.cell_type == "code" else []
        if "### BEGIN SOLUTION" in cell.source:
            cell.metadata["nbgrader"] = _metadata("answer", solution=True)
        if found:
            name = found[0]
            cards[name] = card_at(master.cells, place, name, len(cards) + 1)
            cell.metadata["nbgrader"] = _metadata(name, points=cards[name].points)
            _answer_above(master.cells[:place]).metadata["nbgrader"]["grade_id"] = f"{name}_answer"
            master.cells[place + 1].metadata["tags"] = ["hints"]
    return cards


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


def texts() -> dict[Path, str]:
    """Every file that is made from the masters, with its text; the masters are among them.

    Raises:
        ValueError: a card or hints have another form; the message names the notebook and the cell.
    """
    made, cards = {}, {}
    for path in sorted(MASTERS.glob("*.ipynb")):
        master = cell_ids.read(path)
        bootstrap.fill(master, bootstrap.rendered())
        try:
            cards[path.stem.lstrip("0123456789_")] = complete(master)
        except ValueError as error:
            raise ValueError(f"{path.relative_to(ROOT)}, {error}") from None
        made[path] = nbformat.writes(master) + "\n"
        made[MASTERS.parent / path.name] = nbformat.writes(student(master)) + "\n"
    listed = {x: {k: asdict(card) for k, card in of.items()} for x, of in cards.items()}
    return made | {CARDS: json.dumps(listed, indent=2, ensure_ascii=False) + "\n"}


def main(check: bool) -> int:
    try:
        made = texts()  # all, before the first is written
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    stale = []
    for target, text in made.items():
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
