"""A page for every student, and one for the teacher that lists them all.

A name, a finding and a problem may hold whatever a student wished for. Jinja escapes all of it, the
page forbids itself scripts, requests and any style but its own, and hidden characters are shown.
"""

import base64
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attncourse.grading.check import details, most_likely
from attncourse.grading.exercises import chapter_of, load
from attncourse.grading.sanitize import truncate
from attncourse.grading.verdict import Verdict
from attngrade.table import Row, Run, Table

HERE = Path(__file__).parent
LONGEST_NAME, LONGEST_MESSAGE = 80, 600
# So many notes stand on a student's page, and in the teacher's list.
MOST_NOTES, MOST_LISTED = 20, 3

# Windows opens a device instead of a file of this name, whatever its ending.
DEVICES = {"con", "prn", "aux", "nul", *(f"{x}{n}" for x in ("com", "lpt") for n in range(10))}
TAKEN = DEVICES | {"index"}

# How our own pages are told from other files.
GENERATOR = "attngrade"

# Every status has its words; a colour and a sign come on top. Others are neither right nor wrong.
SIGNS = {"passed": "✓", "failed": "✗"}


@dataclass(frozen=True)
class Card:
    """What the page shows of one exercise."""

    verdict: Verdict
    title: str
    kind: str
    sign: str
    diagnosis: str
    findings: list[str]


@dataclass(frozen=True)
class Chapter:
    """The exercises of one chapter; no cards where nothing was handed in."""

    name: str
    points: int
    out_of: int
    cards: list[Card]


def pages(table: Table) -> dict[str, str]:
    """The HTML of every page by the name of its file; ``index.html`` is the teacher's."""
    render = _Renderer(table.run)
    names = page_names(row.student for row in table.rows)
    notes = {row.student: _first(row.notes, MOST_LISTED) for row in table.rows}
    made = {"index.html": render("index", table=table, names=names, notes=notes)}
    for row in table.rows:
        made[names[row.student]] = render(
            "feedback",
            row=row,
            notes=_first(row.problems, MOST_NOTES),
            counts=Counter(v.status for v in row.verdicts.values()).most_common(),
            chapters=_chapters(row, table),
            out_of=table.out_of,
        )
    return made


def page_names(students: Iterable[str]) -> dict[str, str]:
    """A file name for each student: plain letters, and never the same twice on any disk.

    Who has the readable name alone keeps it. All who share one, even by their case, get a digest
    behind ``--``, which no readable name has.
    """
    readable = {student: _slug(student) for student in students}
    shared = Counter(readable.values())
    return {
        student: f"{slug}--{_digest(student)}.html"
        if shared[slug] > 1 or slug in TAKEN
        else f"{slug}.html"
        for student, slug in readable.items()
    }


def _slug(student: str) -> str:
    letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:60].strip("-") or "student"


def _digest(student: str) -> str:
    return hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Renderer:
    """Fills the templates; the style may stand in the page because the page names its digest."""

    def __init__(self, run: Run):
        self.environment = Environment(
            loader=FileSystemLoader(HERE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= {"name": _name, "message": _message, "plural": _plural}
        style = (HERE / "feedback.css").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        # The style is ours and the only text that is not escaped.
        self.shared = {
            "run": run,
            "style": Markup(style),
            "style_digest": digest,
            "generator": GENERATOR,
        }

    def __call__(self, template: str, **values) -> str:
        found = self.environment.get_template(f"{template}.html.jinja")
        return found.render(**self.shared, **values) + "\n"


def _chapters(row: Row, table: Table) -> list[Chapter]:
    chapters = []
    for name, group in groupby(table.exercises, key=lambda e: chapter_of(e.name)):
        exercises = list(group)
        verdicts = [row.verdicts[e.name] for e in exercises if e.name in row.verdicts]
        points = sum(v.points for v in verdicts)
        out_of = sum(e.out_of for e in exercises)
        chapters.append(Chapter(name, points, out_of, [_card(v) for v in verdicts]))
    return chapters


def _card(verdict: Verdict) -> Card:
    """The same lines that `check` shows in the notebook, below its headline."""
    kind = verdict.status if verdict.status in SIGNS else "other"
    sign = SIGNS.get(verdict.status, "–")
    return Card(
        verdict, load(verdict.name).title, kind, sign, most_likely(verdict), details(verdict)
    )


def _first(texts: tuple[str, ...], most: int) -> list[str]:
    more = [f"... and {len(texts) - most} more"] if len(texts) > most else []
    return [*texts[:most], *more]


def _name(text: str) -> str:
    return truncate(text, LONGEST_NAME) if text.strip() else "(no name)"


def _message(text: str) -> str:
    return truncate(text, LONGEST_MESSAGE, keep="\n\t")


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
