"""The scores of a class: a CSV for spreadsheet and gradebook, and pages to be read.

Equal results give equal bytes: everything is sorted, and no times or paths are written. Whenever the run is
killed, each file is complete or unchanged.
"""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path

from attncourse.grading.sanitize import spreadsheet_cell
from attngrade import Result
from attngrade.feedback import GENERATOR, pages
from attngrade.table import NOT_GRADED, Run, Table, tabulate


def write(results: Iterable[Result], run: Run, folder: Path) -> Table:
    """Write ``scores.csv`` and ``feedback/*.html`` into a folder; returns the table.

    Feedback pages of an earlier run whose student is gone are removed; other files are left alone.

    Raises:
        KeyError: a verdict names an exercise that the course does not have.
        OSError: the folder cannot be written.
    """
    table = tabulate(results, run)
    feedback = folder / "feedback"
    feedback.mkdir(parents=True, exist_ok=True)
    wanted = pages(table)
    for name, page in wanted.items():
        replace(feedback / name, page)
    for path in feedback.glob("*.html"):
        if path.name not in wanted and GENERATOR.encode() in path.read_bytes()[:1000]:
            path.unlink()
    replace(folder / "scores.csv", as_csv(table), encoding="utf-8-sig")
    return table


def replace(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Write a file atomically: readers see the old or the new text."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding=encoding, newline="")
    os.replace(part, path)


def as_csv(table: Table) -> str:
    """A row for each student, a column for each exercise, then ``total``, ``out_of`` and ``notes``.

    A cell is empty where the chapter was not handed in, and where the grader failed; a row with a failure
    has no total. An apostrophe precedes text that a spreadsheet would take for a formula. Excel needs the
    byte order mark that `write` puts first; pandas skips it.
    """
    text = io.StringIO()
    names = [e.name for e in table.exercises]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", *names, "total", "out_of", "notes"])
    for row in table.rows:
        total = row.points if row.complete else ""
        notes = spreadsheet_cell(" ".join((*row.problems, *row.notes)))
        found = [row.verdicts.get(name) for name in names]
        points = ["" if v is None or v.status == NOT_GRADED else v.points for v in found]
        writer.writerow([spreadsheet_cell(row.student), *points, total, table.out_of, notes])
    return text.getvalue()
