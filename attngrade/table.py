"""A class in one table: a row a student, whatever number of files each of them handed in."""

from collections.abc import Iterable
from dataclasses import dataclass

from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises import CHAPTERS, chapter_of, load, names
from attncourse.grading.verdict import Verdict
from attngrade import Graded


@dataclass(frozen=True)
class Run:
    """How the class was graded.

    Args:
        official: whether the scores count: every protection that they need was in force.
        protections: pairs of a name and ``"in force"``, or why it was not.
        problems: what went wrong besides the submissions, in whole sentences.
        seed_mark: a fingerprint of the secret seed, never the seed itself.
    """

    official: bool
    protections: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    seed_mark: str = ""


@dataclass(frozen=True)
class Row:
    """One student: the files, the verdict that counts for each exercise, and what was wrong.

    The student reads ``problems``; ``notes`` add what is for the teacher alone.
    """

    student: str
    files: tuple[Graded, ...]
    verdicts: dict[str, Verdict]
    problems: tuple[str, ...]
    confidential: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.problems, *self.confidential)

    @property
    def points(self) -> int:
        return sum(v.points for v in self.verdicts.values())


@dataclass(frozen=True)
class Table:
    """The class, sorted by student; ``exercises`` are those of all chapters that anyone handed in."""

    run: Run
    exercises: tuple[Exercise, ...]
    rows: tuple[Row, ...]

    @property
    def out_of(self) -> int:
        return sum(e.out_of for e in self.exercises)


def tabulate(graded: Iterable[Graded], run: Run) -> Table:
    """Merge the files of each student; the order in which they come makes no difference.

    Raises:
        KeyError: a verdict is of an exercise that the course does not have.
    """
    files: dict[str, list[Graded]] = {}
    for one in sorted(graded, key=lambda g: (g.student.casefold(), g.student, g.file, g.digest)):
        files.setdefault(one.student, []).append(one)
    rows = tuple(_row(student, tuple(found)) for student, found in files.items())
    chapters = {chapter_of(name) for row in rows for name in row.verdicts}
    return Table(run, tuple(load(n) for n in names() if chapter_of(n) in chapters), rows)


def _row(student: str, files: tuple[Graded, ...]) -> Row:
    counted: dict[str, Verdict] = {}
    sources: dict[str, list[str]] = {}
    for one in files:
        for chapter in {chapter_of(v.name) for v in one.verdicts}:
            sources.setdefault(chapter, []).append(one.file)
        for verdict in one.verdicts:
            kept = counted.get(verdict.name)
            if kept is None or _rank(verdict) > _rank(kept):
                counted[verdict.name] = verdict
    # Several files: say of which one a sentence speaks.
    problems = [
        f"{one.file}: {problem}" if len(files) > 1 else problem
        for one in files
        for problem in one.problems
    ]
    problems += [
        f"The chapter {chapter} was handed in {len(sources[chapter])} times "
        f"({', '.join(sources[chapter])}); of each exercise the better answer counts."
        for chapter in CHAPTERS
        if len(sources.get(chapter, ())) > 1
    ]
    confidential = dict.fromkeys(note for one in files for note in one.confidential)
    return Row(student, files, counted, tuple(dict.fromkeys(problems)), tuple(confidential))


def _rank(verdict: Verdict) -> tuple[int, bool]:
    return verdict.points, verdict.status != "not attempted"
