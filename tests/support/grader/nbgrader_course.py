"""A small course for the real nbgrader, made of one of our masters."""

from pathlib import Path

import nbformat

from support.book.notebooks import read

NAME = "02_masks"
KEPT = ("causal_mask", "decoder_mask", "leaking_loss")
CONFIG = """c = get_config()
c.CourseDirectory.course_id = "attention"
c.ClearSolutions.code_stub = {"python": "# your code here\\nraise NotImplementedError"}
c.Execute.timeout = 300
"""


def mark(cell) -> dict:
    return cell.metadata.get("nbgrader", {})


def cut(path: Path, kept=KEPT):
    """The notebook with some of its exercises: what stands above them, their answers and checks."""
    notebook = read(path)
    start = [c for c in notebook.cells if "bootstrap" in c.metadata.get("tags", [])]
    ids = {*kept, *(f"{name}_answer" for name in kept)}
    imports = next(c for c in notebook.cells if c.source.startswith("import math"))
    cells = [c for c in notebook.cells if mark(c).get("grade_id") in ids]
    notebook.cells = [*start, imports, *cells]
    return notebook


def write(notebook, path: Path) -> None:
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
