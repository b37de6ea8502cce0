"""The scores of a class, for the teacher and for other programs: CSV, JSON and JUnit XML.

The same submissions give the same bytes: everything is sorted, and neither times nor places of
this machine are written. A file is there in full or as it was before, whenever the run is killed.
"""

import csv
import io
import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from attncourse.grading.junit import suite_of
from attncourse.grading.sanitize import spreadsheet_cell
from attngrade import Graded
from attngrade.feedback import GENERATOR, page_names, pages
from attngrade.table import Run, Table, tabulate


def write(graded: Iterable[Graded], run: Run, folder: Path) -> Table:
    """Write ``scores.csv``, ``scores.json``, ``scores.xml`` and ``feedback/*.html`` into a folder.

    Feedback pages of an earlier run whose student is gone are removed; other files are left alone.

    Returns: the table that was written.

    Raises:
        KeyError: a verdict is of an exercise that the course does not have.
        OSError: the folder cannot be written.
    """
    table = tabulate(graded, run)
    feedback = folder / "feedback"
    feedback.mkdir(parents=True, exist_ok=True)
    wanted = pages(table)
    for name, page in wanted.items():
        replace(feedback / name, page)
    for path in feedback.glob("*.html"):
        if path.name not in wanted and GENERATOR.encode() in path.read_bytes()[:1000]:
            path.unlink()
    replace(folder / "scores.csv", as_csv(table), encoding="utf-8-sig")
    replace(folder / "scores.xml", as_junit(table))
    replace(folder / "scores.json", as_json(table))
    return table


def replace(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Write a file in one step: who reads meanwhile sees the old one or the new one."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding=encoding, newline="")
    os.replace(part, path)


def as_csv(table: Table) -> str:
    """A row a student, a column an exercise; empty where nothing of the chapter was handed in.

    Excel needs the byte order mark that `write` puts first; pandas skips it. What a spreadsheet
    would take for a formula starts with an apostrophe.
    """
    header = [e.name for e in table.exercises]
    rows = [["student", *header, "total", "out_of", "notes"]]
    for row in table.rows:
        points = [row.verdicts[name].points if name in row.verdicts else "" for name in header]
        notes = spreadsheet_cell(" ".join(row.notes))
        rows.append([spreadsheet_cell(row.student), *points, row.points, table.out_of, notes])
    return csv_text(rows)


def csv_text(rows: Iterable[list]) -> str:
    """Rows as CSV; a row ends in a line feed on every system."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_json(table: Table) -> str:
    """Everything that is known, with every finding; ASCII, so that no name can break it."""
    run, page = table.run, page_names(row.student for row in table.rows)
    data = {
        "official": run.official,
        "protections": [{"name": name, "state": state} for name, state in run.protections],
        "problems": list(run.problems),
        "seed_mark": run.seed_mark,
        "out_of": table.out_of,
        "exercises": [
            {"name": e.name, "title": e.title, "points": e.out_of} for e in table.exercises
        ],
        "students": [
            {
                "student": row.student,
                "points": row.points,
                "page": f"feedback/{page[row.student]}",
                "files": [{"file": one.file, "digest": one.digest} for one in row.files],
                "problems": list(row.problems),
                "confidential": list(row.confidential),
                "verdicts": [
                    asdict(row.verdicts[e.name]) for e in table.exercises if e.name in row.verdicts
                ],
            }
            for row in table.rows
        ],
    }
    return json.dumps(data, indent=1) + "\n"


def as_junit(table: Table) -> str:
    """A test suite per student, a test case per exercise."""
    suites = ET.Element("testsuites", name="attncourse" if table.run.official else "unofficial")
    for row in table.rows:
        verdicts = [row.verdicts[e.name] for e in table.exercises if e.name in row.verdicts]
        suites.append(suite_of(row.student, row.student, verdicts, row.notes))
    for count in ("tests", "failures", "errors"):
        suites.set(count, str(sum(int(suite.get(count)) for suite in suites)))
    ET.indent(suites, " ")
    return ET.tostring(suites, encoding="unicode") + "\n"
