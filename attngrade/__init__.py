"""Grading a class: the data that go from step to step.

The code of a submission never runs in this package but in `attngrade.sandbox`, one sandbox for each student.
"""

import hashlib
from dataclasses import dataclass, field

from attncourse.grading.verdict import Verdict


class NotGraded(Exception):
    """A failure of the grader, the sandbox or the machine, not of the student; the message is a whole sentence."""


@dataclass(frozen=True)
class File:
    """One file as it was handed in, not yet interpreted.

    Args:
        name: path below the folder of the submissions.
        digest: SHA-256 of the bytes; empty where the file could not be read.
        data: the bytes; None where the file could not be read, and then ``problem`` says why, in a whole sentence.
    """

    name: str
    digest: str = ""
    data: bytes | None = field(default=None, repr=False)
    problem: str = ""


@dataclass(frozen=True)
class Order:
    """All files of one student, graded together in one sandbox."""

    student: str
    files: tuple[File, ...]

    @property
    def digest(self) -> str:
        """Digest of the files and their names."""
        listed = "\n".join(f"{file.digest} {file.name}" for file in self.files)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Cell:
    """A code cell as plain Python, and its number in the notebook, from 1."""

    number: int
    source: str


@dataclass(frozen=True)
class Notebook:
    """A file that was read and repaired, not run.

    Args:
        cells: the code cells.
        chapters: the chapters whose exercises it answers, such as ``("multi_head",)``.
        problems: faults of the file, in whole sentences, for the student and the teacher.
        notes: remarks for the teacher alone, such as answers that call a library's attention.
        likeness: equal for notebooks that are the same work; empty where equality may be chance.
    """

    cells: tuple[Cell, ...] = ()
    chapters: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    likeness: str = ""


@dataclass(frozen=True)
class Graded:
    """The result of one file; every exercise of its chapters has a verdict.

    ``problems`` are for the student, too; ``notes`` are for the teacher alone. A verdict with the status
    ``not graded`` is a failure of the grader: its points are open rather than 0.
    """

    file: str
    digest: str
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    likeness: str = ""


@dataclass(frozen=True)
class Result:
    """The result of one student.

    Args:
        student: name of the student.
        digest: digest of the `Order`.
        files: a `Graded` for each file.
        official: False if the code ran without a sandbox.
        protections: pairs of a protection and ``"in force"``, or why not, on the machine that graded.
        complete: False if a part is not graded: the next run tries again.
    """

    student: str
    digest: str
    files: tuple[Graded, ...]
    official: bool = True
    protections: tuple[tuple[str, str], ...] = ()
    complete: bool = True
