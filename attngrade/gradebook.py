"""``python -m attngrade.gradebook results/scores.json --format canvas --out grades.csv``.

Turns the scores of a class into the CSV that a gradebook imports. The points are added up afresh
from the verdicts, so points that a teacher changed in ``scores.json`` are exported as changed.

**canvas**: one column an exercise, and the row "Points Possible" below the header. Canvas finds a
student by ID (its own number), SIS User ID, SIS Login ID or name, in this order, and makes an
assignment of each column whose name it does not know. It would cut "12ab" to the ID 12, so an
``id`` with other characters than digits is not written there.
Source: the importer of Canvas, github.com/instructure/canvas-lms, lib/gradebook_importer.rb; for
teachers, teaching.resources.osu.edu/toolsets/carmencanvas/guides/calculating-final-grades/import-csv-file-carmen-grades

**moodle**: one column that says who, one with the total. At the import, map the first to "Email
address", "ID number" or "Username", and the second to a grade item of as many points.
Source: docs.moodle.org/311/en/Grade_import, and the importer, github.com/moodle/moodle,
grade/import/csv/classes/load_data.php: one unknown student aborts the whole import, and a row
that names nobody is not refused; so neither is written where a roster can tell.

**plain**: everything, for a spreadsheet.

A **roster** is a CSV with the column ``student``, the name of the file or folder that was handed in,
and any of ``name, id, sis_user_id, sis_login_id, section, email``.
"""

import argparse
import csv
import io
import json
import math
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from attncourse.grading.sanitize import escape_hidden, spreadsheet_cell
from attngrade.report import csv_text, replace

COLUMNS = ("student", "name", "id", "sis_user_id", "sis_login_id", "section", "email")
POINTS_ROW = "Points Possible"
MOODLE_NAMES = {"email": "Email address", "id": "ID number", "student": "Username"}


class Unusable(Exception):
    """A file that cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Entry:
    """One line of the gradebook: who, as the roster says, and the points by exercise."""

    person: dict[str, str]
    points: dict[str, float] = field(default_factory=dict)
    listed: bool = True

    @property
    def name(self) -> str:
        return self.person.get("name") or self.person["student"]


def read_scores(path: Path) -> tuple[dict[str, float], dict[str, dict[str, float]], bool]:
    """The points of each exercise, those of each student, and whether the scores are official.

    Raises:
        Unusable: the file is not there or is not what the grader writes.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
        exercises = {e["name"]: _number(e["points"]) for e in data["exercises"]}
        students = {
            s["student"]: {v["name"]: _number(v["points"]) for v in s["verdicts"]}
            for s in data["students"]
        }
        return exercises, students, bool(data["official"])
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(
            f"{path} is not a scores.json of attngrade ({type(error).__name__}: {error}). "
            "If it was edited, look for a missing comma or quote."
        ) from None


def read_roster(path: Path) -> dict[str, dict[str, str]]:
    """The lines of a roster by student; commas, semicolons and tabs separate.

    Raises:
        Unusable: the file is not there, is no UTF-8, has no column ``student``, or names a student
            or an identifier twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Unusable(f"{path} is not UTF-8; save it as 'CSV UTF-8'.") from None
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise Unusable(f"{path} is not a CSV that can be read: {error}.") from None
    columns = [name.strip().lower().replace(" ", "_") for name in rows[0]] if rows else []
    if "student" not in columns:
        raise Unusable(
            f"{path} has no column 'student'. Its first line must name the columns: 'student' is "
            f"the file or folder that was handed in; known besides are {', '.join(COLUMNS[1:])}."
        )
    people = [dict(zip(columns, map(str.strip, row), strict=False)) for row in rows[1:]]
    people = [person for person in people if person.get("student")]
    for column in ("student", "id", "sis_user_id", "sis_login_id", "email"):
        counts = Counter(person[column] for person in people if person.get(column))
        twice = [value for value, count in counts.items() if count > 1]
        if twice:
            raise Unusable(
                f"{path} has the {column} {escape_hidden(twice[0])!r} twice; keep one line."
            )
    return {_key(person["student"]): person for person in people}


def join(
    students: dict[str, dict[str, float]], roster: dict[str, dict[str, str]] | None
) -> list[Entry]:
    """Scores and roster in one list: first the roster in its order, then who is not on it."""
    if roster is None:
        return [Entry({"student": student}, points) for student, points in students.items()]
    # A disk may store the accents of a name in another way than the roster does.
    counts = Counter(_key(student) for student in students)
    known = {_key(s): p for s, p in students.items() if counts[_key(s)] == 1 and _key(s) in roster}
    entries = [Entry(person, known.get(key, {})) for key, person in roster.items()]
    strangers = {s: p for s, p in students.items() if _key(s) not in known}
    return entries + [Entry({"student": s}, p, listed=False) for s, p in strangers.items()]


def canvas(entries: list[Entry], exercises: dict[str, float]) -> list[list]:
    """The rows that Canvas imports."""
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *exercises]
    rows = [header, [POINTS_ROW, "", "", "", "", *exercises.values()]]
    for entry in entries:
        person, number = entry.person, entry.person.get("id", "")
        sis = [person.get(key, "") for key in ("sis_user_id", "sis_login_id", "section")]
        who = [entry.name, number if number.isdecimal() else "", *sis]
        rows.append([*map(spreadsheet_cell, who), *_points(entry, exercises)])
    return rows


def moodle(entries: list[Entry], exercises: dict[str, float]) -> list[list]:
    """Who and how many points: by e-mail, else by ID number, else by the name of the submission."""
    who = _moodle_column(entries)
    rows = [[MOODLE_NAMES[who], f"attncourse ({sum(exercises.values())} points)"]]
    return rows + [[spreadsheet_cell(e.person[who]), sum(_points(e, exercises))] for e in entries]


def plain(entries: list[Entry], exercises: dict[str, float]) -> list[list]:
    """All columns of the roster and all exercises."""
    rows = [[*COLUMNS, *exercises, "total", "out_of"]]
    for entry in entries:
        who = [spreadsheet_cell(entry.person.get(column, "")) for column in COLUMNS]
        points = _points(entry, exercises)
        rows.append([*who, *points, sum(points), sum(exercises.values())])
    return rows


FORMATS = {"canvas": canvas, "moodle": moodle, "plain": plain}


def left_out(entries: list[Entry], form: str) -> list[tuple[Entry, str]]:
    """Who cannot stand in this format, and why; in ``plain`` everybody can."""
    if form == "plain":
        return []
    unlisted = "the roster has no line for it, or two submissions share that line"
    out = [(e, unlisted) for e in entries if not e.listed]
    listed = [e for e in entries if e.listed]
    if form == "moodle":
        who = _moodle_column(listed)
        reason = f"Moodle could not find the student by the {MOODLE_NAMES[who]} that is given"
        out += [(e, reason) for e in listed if not _moodle_finds(e.person.get(who, ""))]
    if form == "canvas":
        reason = f"Canvas would read a student called {POINTS_ROW!r} as the points of the exercises"
        out += [(e, reason) for e in listed if POINTS_ROW.lower() in e.name.lower()]
    return out


def main(arguments: list[str] | None = None) -> int:
    """Write the CSV; returns 0, or 1 where a submission was left out, or 2 where nothing was written."""
    parser = argparse.ArgumentParser(
        prog="python -m attngrade.gradebook",
        description="Turn scores.json into the CSV that a gradebook imports.",
    )
    parser.add_argument("scores", type=Path, help="the scores.json of attngrade")
    parser.add_argument("--format", choices=FORMATS, default="plain", dest="form")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--roster", type=Path, metavar="FILE", help="who is who, as CSV")
    options = parser.parse_args(arguments)
    try:
        exercises, students, official = read_scores(options.scores)
        entries = join(students, read_roster(options.roster) if options.roster else None)
        out = left_out(entries, options.form)
        kept = [e for e in entries if all(e is not other for other, _ in out)]
        text = csv_text(FORMATS[options.form](kept, exercises))
        # A spreadsheet needs the mark; an importer may take it for a part of the first name.
        encoding = "utf-8-sig" if options.form == "plain" else "utf-8"
        replace(options.out, text, encoding)
    except Unusable as error:
        print(error)
        return 2
    except OSError as error:
        print(f"{options.out} cannot be written: {error.strerror}.")
        return 2
    print(f"{options.out}: {len(kept)} students, {len(exercises)} exercises.")
    if not official:
        print("These scores are unofficial; the page feedback/index.html says why.")
    for entry in kept:
        if not entry.points:
            print(
                f"{escape_hidden(entry.name)}: nothing that could be graded was handed in, so 0 points are written."
            )
        if not entry.listed:
            print(f"{escape_hidden(entry.name)}: written, but the roster has no line for it.")
    for entry, reason in out:
        print(f"{escape_hidden(entry.name)}: left out, as {reason}.")
    return 1 if out else 0


def _points(entry: Entry, exercises: dict[str, float]) -> list[float]:
    return [entry.points.get(name, 0) for name in exercises]


def _moodle_column(entries: list[Entry]) -> str:
    return next((c for c in ("email", "id") if any(e.person.get(c) for e in entries)), "student")


def _moodle_finds(identifier: str) -> bool:
    # PHP takes "0" for nothing, and what we have to guard is no longer what Moodle knows.
    return identifier.strip() not in ("", "0") and spreadsheet_cell(identifier) == identifier


def _number(points) -> float:
    if isinstance(points, bool) or not isinstance(points, int | float) or not math.isfinite(points):
        raise ValueError(f"{points!r} is no number of points")
    return points


def _key(student: str) -> str:
    return unicodedata.normalize("NFC", student)


if __name__ == "__main__":
    sys.exit(main())
