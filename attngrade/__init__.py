"""Grading a class: what is handed from step to step.

The code of a submission never runs here. It runs in the sandbox of `attngrade.sandbox`, one for each student.
"""

import hashlib
from dataclasses import dataclass, field

from attncourse.grading.verdict import Verdict


class NotGraded(Exception):
    """The grader, the sandbox or the machine failed, not the student; the message says how, in a whole sentence."""


@dataclass(frozen=True)
class File:
    """One file as it was handed in, not yet looked into.

    Args:
        name: its path below the folder of the submissions.
        digest: SHA-256 of its bytes; empty where it could not be read.
        data: its bytes; None where it could not be read, and then ``problem`` says why, in a whole sentence.
    """

    name: str
    digest: str = ""
    data: bytes | None = field(default=None, repr=False)
    problem: str = ""


@dataclass(frozen=True)
class Order:
    """All that one student handed in: what is graded together, in one sandbox."""

    student: str
    files: tuple[File, ...]

    @property
    def digest(self) -> str:
        """The same for the same files under the same names."""
        listed = "\n".join(f"{file.digest} {file.name}" for file in self.files)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Cell:
    """A code cell as plain Python, and its place in the notebook, from 1, as a person counts."""

    number: int
    source: str


@dataclass(frozen=True)
class Notebook:
    """A file that was read and repaired, not run.

    Args:
        cells: its code cells.
        chapters: the chapters whose exercises it answers, such as ``("multi_head",)``.
        problems: what was wrong with it, in whole sentences, for the student as well.
        notes: what only the teacher reads, such as which answers call the library's attention.
        likeness: the same for notebooks that are the same work; empty where that may be chance.
    """

    cells: tuple[Cell, ...] = ()
    chapters: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    likeness: str = ""


@dataclass(frozen=True)
class Graded:
    """The result of one file; every exercise of its chapters has a verdict.

    ``problems`` are for the student, too; ``notes`` are for the teacher alone. The status of a verdict may
    be ``not graded``: then the grader failed, and its points are open rather than 0.
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
        student: who.
        digest: of the `Order`.
        files: a `Graded` for each file.
        official: False when the code ran without a sandbox.
        protections: pairs of what protects and ``"in force"``, or why it is not, on the machine on which it ran.
        complete: False where something is not graded: the next run tries again.
    """

    student: str
    digest: str
    files: tuple[Graded, ...]
    official: bool = True
    protections: tuple[tuple[str, str], ...] = ()
    complete: bool = True
