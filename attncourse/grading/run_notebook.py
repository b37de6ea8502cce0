"""Run an exercise notebook in a fresh kernel and collect the verdicts of its `check` cells."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from attncourse.grading import CELL_SECONDS
from attncourse.grading.exercises import chapter_of, load, names
from attncourse.grading.verdict import Verdict

CHECK = re.compile(r"""\bcheck\(\s*["'](\w+)["']""")
MOST_FATAL_CELLS = 10


@dataclass
class Score:
    """The result of one notebook: a verdict per exercise, and the problems of the run."""

    path: Path
    verdicts: list[Verdict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def points(self) -> int:
        return sum(v.points for v in self.verdicts)

    @property
    def out_of(self) -> int:
        return sum(v.out_of for v in self.verdicts)

    @property
    def full(self) -> bool:
        return bool(self.verdicts) and self.points == self.out_of


def grade_notebook(path: Path, cell_seconds: float = CELL_SECONDS) -> Score:
    """Run a notebook from top to bottom and score it.

    Every exercise of the chapters that the notebook checks counts; one without a check earns 0 and
    is named. After a cell that raises, hangs or kills its kernel the rest still runs.

    Args:
        path: the notebook.
        cell_seconds: time limit of a cell; a slower cell is interrupted and named.

    Returns: a `Score`; its ``problems`` name in plain words the files and cells that failed.
    """
    score = Score(path)
    try:
        notebook = nbformat.read(path, as_version=4)
        sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    except FileNotFoundError:
        score.problems.append(f"{path} does not exist")
    except IsADirectoryError:
        score.problems.append(f"{path} is a folder; name one notebook")
    except Exception as error:  # of json or nbformat: they share no base class
        score.problems.append(f"{path.name} is not a notebook that can be read: {error}"[:300])
    if score.problems:
        return score
    checked = {name for source in sources for name in CHECK.findall(source)} & set(names())
    chapters = {chapter_of(name) for name in checked}
    if not chapters:
        score.problems.append(f"{path.name} has no check(...) cell of this course")
        return score
    _execute(notebook, cell_seconds, score)
    found = _verdicts(notebook)
    for name in names():
        if chapter_of(name) in chapters:
            left_out = load(name).left_out()
            score.verdicts.append(left_out or found.get(name) or _unchecked(name, sources))
    return score


def _unchecked(name: str, sources: list[str]) -> Verdict:
    there = any(name in CHECK.findall(source) for source in sources)
    status = "check did not finish" if there else "check cell is missing"
    return Verdict(name, status, 0, load(name).points)


def _execute(notebook, cell_seconds: float, score: Score) -> None:
    """Run all cells; after one that hangs or ends its kernel, continue in a fresh kernel."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    fatal: set[int] = set()
    while len(fatal) < MOST_FATAL_CELLS:
        client = NotebookClient(
            notebook,
            timeout=cell_seconds,
            allow_errors=True,
            kernel_name="python3",
            shutdown_kernel="immediate",
            resources={"metadata": {"path": str(score.path.resolve().parent)}},
        )
        client.log.disabled = True  # its messages are among the problems
        with client.setup_kernel(stderr=DEVNULL):
            if _run_cells(client, fatal, score):
                return
    score.problems.append(
        f"{MOST_FATAL_CELLS} cells hung or ended the kernel; the rest was not run"
    )


def _run_cells(client: NotebookClient, fatal: set[int], score: Score) -> bool:
    """Run all cells but the ``fatal`` ones; False if one more proved fatal.

    Cells above the last fatal one run again only for their imports and functions; their first
    outputs stand.
    """
    seen = max(fatal, default=-1)
    for index, cell in enumerate(client.nb.cells):
        if cell.cell_type != "code" or index in fatal:
            continue
        outputs = cell.outputs
        try:
            client.execute_cell(cell, index)
        except (CellTimeoutError, DeadKernelError) as error:
            took = f"took longer than {client.timeout:g} s"
            what = took if isinstance(error, CellTimeoutError) else "ended the kernel"
            score.problems.append(f"cell {index + 1} {what}")
            fatal.add(index)
            return False
        finally:
            if index < seen:
                cell.outputs = outputs
    return True


def _verdicts(notebook) -> dict[str, Verdict]:
    """The last verdict on every exercise, from the metadata of the outputs."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if data := output.get("metadata", {}).get("attncourse"):
                found[data["name"]] = Verdict(**data | {"findings": tuple(data["findings"])})
    return found
