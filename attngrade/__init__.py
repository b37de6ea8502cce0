"""Grading a class: what is handed from step to step.

The code of a submission never runs here. It runs in the worker of `attngrade.far`.
"""

from dataclasses import dataclass
from pathlib import Path

from attncourse.grading.verdict import Verdict


@dataclass(frozen=True)
class Cell:
    """A code cell: its source, and its place in the notebook, from 1, as a person counts."""

    number: int
    source: str


@dataclass(frozen=True)
class Submission:
    """One notebook as it was handed in, read and healed but not run.

    Args:
        student: who handed it in: the name of the file, or of the folder around it.
        path: the file.
        digest: SHA-256 of its bytes; empty where it could not be read.
        cells: its code cells.
        chapters: the chapters whose exercises it answers, such as ``("multi_head",)``.
        problems: what was wrong with it, in whole sentences.
    """

    student: str
    path: Path
    digest: str = ""
    cells: tuple[Cell, ...] = ()
    chapters: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graded:
    """The result of one submission; every exercise of its chapters has a verdict.

    ``problems`` are for the student, too; ``confidential`` is for the teacher alone.
    """

    student: str
    file: str
    digest: str
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[str, ...] = ()
    confidential: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        return sum(v.points for v in self.verdicts)

    @property
    def out_of(self) -> int:
        return sum(v.out_of for v in self.verdicts)
