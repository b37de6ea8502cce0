"""The scores of a class: a CSV for spreadsheet and gradebook, and pages to be read.

The same results give the same bytes: everything is sorted, and neither times nor places of this
machine are written. A file is there in full or as it was before, whenever the run is killed.
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
    """Write ``scores.csv`` and ``feedback/*.html`` into a folder; returns the table that was written.

    Feedback pages of an earlier run whose student is gone are removed; other files are left alone.

    Raises:
        KeyError: a verdict is of an exercise that the course does not have.
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
    """Write a file in one step: who reads meanwhile sees the old one or the new one."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding=encoding, newline="")
    os.replace(part, path)


def as_csv(table: Table) -> str:
    """A row a student, a column an exercise, then ``total``, ``out_of`` and ``notes``.

    A cell is empty where nothing of the chapter was handed in, and where the grader failed; of whom
    it failed there is no total. What a spreadsheet would take for a formula starts with an apostrophe.
    Excel needs the byte order mark that `write` puts first; pandas skips it.
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
