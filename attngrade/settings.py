"""What a worker of dask does: it holds one grader, and grades the files that it is sent.

The bytes of a notebook travel with the order, as a worker far away cannot see the folder of the class.
"""

import hashlib
import hmac
import importlib.metadata
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from attncourse import grading
from attncourse.grading.exercises import load, names
from attngrade import Graded
from attngrade.sandbox.sandbox import MIB, Limits
from attngrade.grader import Grader
from attngrade.journal import Result
from attngrade.submissions import likeness, understand

# Of this process: the module is imported once in each worker, so there is one grader.
_busy = threading.Lock()
_graders: dict["Settings", Grader] = {}


class NoSandbox(Exception):
    """A sandbox was demanded and a worker has none; the message says why."""


class Stopped(Exception):
    """The cluster cannot go on; the message says what to do. What was graded is kept."""


@dataclass(frozen=True)
class Order:
    """One file to grade: its name below the folder of the class, and its bytes."""

    student: str
    file: str
    digest: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Settings:
    """How to grade: what every grader must agree on.

    Args:
        secret: what the inputs are drawn from.
        seconds: of each cell, and of each exercise.
        memory: MiB that a submission may use.
        chapters: only these; all if empty.
        sandbox: refuse to run a submission without one.
        course: `fingerprint` of the course that grades.
    """

    secret: bytes = field(repr=False)
    seconds: float
    memory: int
    chapters: tuple[str, ...] = ()
    sandbox: bool = False
    course: str = ""

    @property
    def mark(self) -> str:
        """The same for the same points; the secret cannot be had from it."""
        matter = f"{self.seconds} {self.memory} {self.chapters} {self.course}"
        return hmac.digest(self.secret, matter.encode(), hashlib.sha256).hex()


@cache
def fingerprint() -> str:
    """The version of the course, and a digest of all that grades: an edited exercise is graded anew.

    What cannot be judged here stands in it, so that all workers leave out the same.
    """
    course = Path(grading.__file__).parent
    both = (course, Path(__file__).parent)
    files = [
        *(x for folder in both for x in sorted(folder.rglob("*.py"))),
        course.parent / "spec.py",
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    left_out = "".join(f", without {name}" for name in names() if load(name).left_out())
    return f"{importlib.metadata.version('attncourse')} {digest[:16]}{left_out}"


def grade(orders: list[Order], settings: Settings) -> list[Result]:
    """Grade some files, one after the other: judging is not made for threads.

    Raises:
        NoSandbox: the settings demand a sandbox.
        Stopped: another version of the course is installed here.
    """
    if fingerprint() != settings.course:
        raise Stopped(
            f"A worker has another version of the course: {fingerprint()}, where {settings.course} "
            "was expected. Install the same one everywhere."
        )
    with _busy:
        return [_grade(order, settings) for order in orders]


def _grade(order: Order, settings: Settings) -> Result:
    grader = _grader(settings)
    about = {"official": grader.official, "protections": grader.protections}
    path = Path(order.file)
    submission = understand(order.student, path, order.digest, order.data)
    if settings.chapters:
        kept = tuple(x for x in submission.chapters if x in settings.chapters)
        submission = replace(submission, chapters=kept)
    try:
        graded = grader.judge(submission, Path())
    except Exception as error:  # of ours, or of this machine: the next one starts afresh
        _end_grader()
        why = f"Grading it failed, with {type(error).__name__}: {error}"[:300]
        return given_up(order, f"{why}. Run the command again, or look at it by hand.")
    return Result(graded, likeness(submission), **about)


def _grader(settings: Settings) -> Grader:
    if settings not in _graders:
        _end_grader()
        limits = Limits(settings.memory * MIB)
        _graders[settings] = Grader(settings.secret, settings.seconds, limits)
    grader = _graders[settings]
    if settings.sandbox and not grader.official:
        raise NoSandbox(grader.protections[0][1])
    return grader


def _end_grader() -> None:
    while _graders:
        _graders.popitem()[1].close()


def release() -> None:
    """End the grader of this worker, unless it is at work."""
    if _busy.acquire(blocking=False):
        with suppress(Exception):
            _end_grader()
        _busy.release()


def given_up(order: Order, why: str) -> Result:
    """A row for what could not be graded; the next run tries again."""
    return Result(Graded(order.student, order.file, order.digest, (), (why,)), kept=False)
