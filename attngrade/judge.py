"""The judge of one student: a short-lived process of trusted code, with limits of its own.

The judge is forked from a server that never met a submission. It reads the notebooks, starts their sandbox, and
sends each verdict as soon as it stands. A hostile reply can end this process and nothing else.
"""

import ctypes
import hashlib
import hmac
import resource
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises import load, names
from attncourse.grading.verdict import Verdict
from attngrade import File, Graded, NotGraded, Order
from attngrade.notebook import read
from attngrade.session import Session
from attngrade.settings import Settings

MEMORY = 2 * 2**30  # bytes of address space beyond the server's
SECONDS = 30  # of processor time for one step; training and loops run in the sandbox, not here
PR_SET_PDEATHSIG = 1

Step = tuple[int, str]  # index of a file, and the exercise; '' while the notebook is read and run

torch.set_num_threads(1)  # a fork does not keep a pool of threads
for _name in names():
    load(_name)  # once, in the server


@dataclass
class Progress:
    """The results of a student's earlier judges, which a new judge does not repeat.

    Args:
        files: the finished files by their indices.
        verdicts: the verdicts of all files.
        hopeless: steps at which the grader failed repeatedly, with the reason.
    """

    files: dict[int, Graded] = field(default_factory=dict)
    verdicts: dict[Step, Verdict] = field(default_factory=dict)
    hopeless: dict[Step, str] = field(default_factory=dict)


def judge(order: Order, settings: Settings, progress: Progress, parent: Connection) -> None:
    """The main function of the process.

    Messages to ``parent``: ``("begin", step)`` before each step, ``("verdict", step, verdict)``,
    ``("file", place, graded)``, and finally ``("end", official, protections)`` or ``("failed", why)``.
    """
    be_bounded()
    with suppress(BrokenPipeError):  # the parent has gone
        _judge(order, settings, progress, parent)


def _judge(order: Order, settings: Settings, progress: Progress, parent: Connection) -> None:
    try:
        with Session(settings) as session:
            for place, file in enumerate(order.files):
                if place not in progress.files:
                    _File(place, file, settings, progress, parent).judge(session)
        parent.send(("end", session.official, session.protections))  # the sandbox is closed by now
    except NotGraded as error:
        parent.send(("failed", str(error)))
    except MemoryError:
        parent.send(("failed", "The judge needed more memory than it may have."))


@dataclass
class _File:
    place: int
    file: File
    settings: Settings
    progress: Progress
    parent: Connection

    def judge(self, session: Session) -> None:
        """Read, run and judge a notebook."""
        if self.file.data is None:
            return self._tell(problems=(self.file.problem,))
        if why := self.progress.hopeless.get((self.place, "")):
            return self._tell(problems=(f"Not graded: {why}",), notes=(why,))
        self._begin("")
        notebook = read(self.file)
        chapters = [x for x in notebook.chapters if x in (self.settings.chapters or (x,))]
        exercises = [load(name) for chapter in chapters for name in names(chapter)]
        if not exercises:
            return self._tell(notebook.problems, notebook.notes, notebook.likeness)
        session.open(notebook.cells)
        verdicts = tuple(self._verdict(exercise, session) for exercise in exercises)
        problems = *notebook.problems, *map(sentence, session.problems)
        return self._tell(problems, notebook.notes, notebook.likeness, verdicts)

    def _verdict(self, exercise: Exercise, session: Session) -> Verdict:
        step = self.place, exercise.name
        if known := exercise.left_out() or self.progress.verdicts.get(step):
            return known
        if why := self.progress.hopeless.get(step):
            return Verdict(exercise.name, "not graded", 0, exercise.points, (why,))
        self._begin(exercise.name)
        torch.default_generator.manual_seed(self._seed(exercise.name, "of the worker") >> 65)
        verdict = session.judge(exercise, self._seed(exercise.name))
        self.parent.send(("verdict", step, verdict))
        return verdict

    def _seed(self, *what: str) -> int:
        """128 bits that only the secret gives; the first bit is set, so there are always 128."""
        message = " ".join((self.file.digest, *what)).encode()
        drawn = hmac.digest(self.settings.secret, message, hashlib.sha256)[:16]
        return int.from_bytes(drawn) | 1 << 127

    def _begin(self, name: str) -> None:
        self.parent.send(("begin", (self.place, name)))
        spend()

    def _tell(self, problems=(), notes=(), likeness="", verdicts=()) -> None:
        graded = Graded(
            self.file.name, self.file.digest, verdicts, tuple(problems), notes, likeness
        )
        self.parent.send(("file", self.place, graded))


def be_bounded() -> None:
    """Set the limits of this process, and have it end with the server, which ends with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def spend() -> None:
    """Give the process `SECONDS` more of processor time; then the kernel ends it."""
    most = int(time.process_time()) + 1 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
