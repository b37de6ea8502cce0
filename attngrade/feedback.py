"""A page for every student, and one for the teacher that lists them all.

Names, findings and problems may hold any text that a student chose. Jinja escapes all of them, the page
forbids itself scripts, requests and foreign styles, and hidden characters are shown.
"""

import base64
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attncourse.grading.check import details, most_likely
from attncourse.grading.exercises import chapter_of, load
from attncourse.grading.sanitize import truncate
from attncourse.grading.verdict import Verdict
from attngrade.table import NOT_GRADED, Row, Run, Table

HERE = Path(__file__).parent
LONGEST_NAME, LONGEST_MESSAGE = 80, 600

# Windows opens a device under these names, whatever the ending.
TAKEN = {"con", "prn", "aux", "nul", *(f"{x}{n}" for x in ("com", "lpt") for n in range(10))}
TAKEN |= {"index"}
# Name in the generator tag of our own pages.
GENERATOR = "attngrade"


def pages(table: Table) -> dict[str, str]:
    """The HTML of every page by file name; ``index.html`` is the teacher's."""
    environment = _environment(table.run)
    index = environment.get_template("index.html.jinja")
    feedback = environment.get_template("feedback.html.jinja")
    names = page_names(row.student for row in table.rows)
    made = {"index.html": index.render(table=table, names=names)}
    for row in table.rows:
        chapters = list(_chapters(row, table))
        made[names[row.student]] = feedback.render(row=row, chapters=chapters, out_of=table.out_of)
    return made


def _chapters(row: Row, table: Table) -> Iterator[tuple[str, int, list[Verdict]]]:
    """Name, points and verdicts of each chapter; no verdicts where nothing was handed in."""
    for name, group in groupby(table.exercises, key=lambda e: chapter_of(e.name)):
        exercises = list(group)
        found = [row.verdicts[e.name] for e in exercises if e.name in row.verdicts]
        yield name, sum(e.out_of for e in exercises), found


def page_names(students: Iterable[str]) -> dict[str, str]:
    """A file name for each student: plain letters, and unique on any disk.

    Students who share a readable name, even if only by case, get a digest after ``--``, which no readable
    name contains.
    """
    readable = {student: _slug(student) for student in students}
    shared = Counter(readable.values())
    for student, slug in readable.items():
        if shared[slug] > 1 or slug in TAKEN:
            digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
            readable[student] = f"{slug}--{digest[:32]}"
    return {student: f"{slug}.html" for student, slug in readable.items()}


def _slug(student: str) -> str:
    letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:60].strip("-") or "student"


def _environment(run: Run) -> Environment:
    """The templates. The page's policy allows its inline style by digest."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "name": lambda text: truncate(text, LONGEST_NAME) if text.strip() else "(no name)",
        "message": lambda text: truncate(text, LONGEST_MESSAGE, keep="\n\t"),
        "plural": lambda number, word: f"{number} {word}{'' if number == 1 else 's'}",
        "title": lambda verdict: load(verdict.name).title,
        "most_likely": most_likely,
        "details": details,
    }
    style = (HERE / "feedback.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # The style is the only text that is not escaped: it is our own.
    shared = {"run": run, "style": Markup(style), "style_digest": digest, "generator": GENERATOR}
    environment.globals |= shared | {"not_graded": NOT_GRADED}
    return environment
