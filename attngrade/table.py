"""A class as one table: a row for each student, however many files were handed in."""

from collections.abc import Iterable
from dataclasses import dataclass

from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises import CHAPTERS, chapter_of, load, names
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Result

NOT_GRADED = "not graded"


@dataclass(frozen=True)
class Run:
    """How the class was graded; ``seed_fingerprint`` identifies the secret without revealing it.

    ``protections`` are pairs of a name and ``"in force"`` or the reason why not; ``problems`` are whole
    sentences on failures outside the submissions.
    """

    official: bool
    protections: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    seed_fingerprint: str = ""


@dataclass(frozen=True)
class Row:
    """One student: the verdict that counts for each exercise, and remarks on the files.

    ``problems`` are for the student, ``notes`` for the teacher alone. Where ``complete`` is False, the grader
    failed on a part, so there is no total yet.
    """

    student: str
    files: tuple[Graded, ...]
    verdicts: dict[str, Verdict]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def points(self) -> int:
        """Points earned so far; final where the row is complete."""
        return sum(v.points for v in self.verdicts.values())

    @property
    def open(self) -> int:
        """Points of exercises that are not graded: neither won nor lost."""
        return sum(v.out_of for v in self.verdicts.values() if v.status == NOT_GRADED)


@dataclass(frozen=True)
class Table:
    """The class, sorted by student; ``exercises`` are those of every chapter that was handed in."""

    run: Run
    exercises: tuple[Exercise, ...]
    rows: tuple[Row, ...]

    @property
    def out_of(self) -> int:
        return sum(e.out_of for e in self.exercises)


def tabulate(results: Iterable[Result], run: Run) -> Table:
    """A row for each result, in whatever order the results come.

    Raises:
        KeyError: a verdict names an exercise that the course does not have.
    """
    rows = tuple(map(_row, sorted(results, key=lambda r: (r.student.casefold(), r.student))))
    chapters = {chapter_of(name) for row in rows for name in row.verdicts}
    return Table(run, tuple(load(n) for n in names() if chapter_of(n) in chapters), rows)


def _row(result: Result) -> Row:
    files = tuple(sorted(result.files, key=lambda one: (one.file, one.digest)))
    counted: dict[str, Verdict] = {}
    sources: dict[str, dict[str, None]] = {}
    for one in files:
        for verdict in one.verdicts:
            sources.setdefault(chapter_of(verdict.name), {})[one.file] = None
            counted[verdict.name] = max(counted.get(verdict.name, verdict), verdict, key=_worth)
    # With several files, each sentence names its file.
    where = "{}: {}" if len(files) > 1 else "{1}"
    problems = [where.format(one.file, text) for one in files for text in one.problems]
    problems += [
        f"The chapter {chapter} was handed in {len(sources[chapter])} times "
        f"({', '.join(sources[chapter])}); of each exercise the better answer counts."
        for chapter in CHAPTERS
        if len(sources.get(chapter, ())) > 1
    ]
    not_graded = [v.name for v in counted.values() if v.status == NOT_GRADED]
    complete = result.complete and not not_graded
    if not_graded:
        what = ", ".join(not_graded)
        problems.append(f"Not graded: {what}. The grader failed there, and no point is lost by it.")
    notes = tuple(dict.fromkeys(note for one in files for note in one.notes))
    return Row(result.student, files, counted, tuple(dict.fromkeys(problems)), notes, complete)


def _worth(verdict: Verdict) -> tuple[int, bool, bool]:
    # an answer that the grader could not judge might be right: worth more than a wrong one
    return verdict.points, verdict.status == NOT_GRADED, verdict.status != "not attempted"
