"""One student in a sandbox: run the cells of a notebook, then judge its answers one by one.

A sandbox that an answer has ended is replaced by a fresh one; cells that end it repeatedly are left out.
"""

import time
import warnings
from collections.abc import Iterable
from contextlib import contextmanager

from attncourse.grading.exercise import Exercise
from attncourse.grading.verdict import Verdict
from attngrade import Cell, NotGraded
from attngrade.sandbox.calls import Calls
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.stand_ins import stand_in
from attngrade.sandbox.wire import Lost, expect
from attngrade.settings import Settings

MOST_STARTS = 8  # of the worker, for one notebook
MOST_NOTES = 20
# Bytes that a notebook may hold when the memory of a call is limited. Training imports torch's compiler with
# the optimizers, which is 80 MiB. A budget must forbid more than both together.
MOST_HOARDED = 140 * 2**20


class TooMuch(Exception):
    """The notebook has ended its worker too often, or taken too long in total."""


class Crowded(BaseException):
    """Earlier notebooks of the student hold memory: the answer needs a fresh worker."""


class Session:
    """The worker of one student, with one notebook in it at a time. A context manager.

    Args:
        settings: the limits, and whether a sandbox is demanded.

    ``problems`` lists the failures of the notebook's cells, one sentence each.
    """

    def __init__(self, settings: Settings):
        self.settings, self.seconds = settings, settings.seconds
        self.box, self.notebooks = None, 0
        self.official, self.protections = True, ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self) -> None:
        """Close the sandbox; the next start makes another."""
        if self.box:
            self.box.close()
        self.box, self.notebooks, self.has_run = None, 0, False

    def open(self, cells: Iterable[Cell]) -> None:
        """Load another notebook of the student.

        Raises:
            NotGraded: there is no sandbox.
        """
        self.cells, self.fatal, self.problems = list(cells), set(), []
        self.starts, self.has_run = 0, False
        self.last = time.monotonic() + self.settings.notebook_seconds
        try:
            self.start()
        except TooMuch:
            self.end()

    def start(self) -> None:
        """Start a worker and run all cells of the notebook, except those that end it.

        Raises:
            NotGraded: there is no sandbox.
            TooMuch: the worker was ended too often, or there is no time left.
        """
        while not self.has_run:
            if self.starts > MOST_STARTS:
                raise TooMuch
            self.starts += 1
            try:
                self._fresh()
            except Lost:  # broken by an earlier notebook
                self.end()
                self._fresh()
            self._run_cells()

    def _fresh(self) -> None:
        """Make a worker without traces of other notebooks: a new one, or the old one cleared."""
        self.notebooks += 1
        if self.box:
            self._start_clock()
            return self._ask("fresh")
        self.box = Sandbox(self.settings.limits, self.settings.bubblewrap).__enter__()
        self.official, self.protections = self.box.official, self.box.protections
        if self.settings.sandbox and not self.official:
            raise NotGraded(f"A sandbox is demanded: {self.protections[0][1]}.")
        calls = Calls(lambda: self.peer.objects)
        serve = {"call": calls.call, "vjp": calls.vjp}
        self.peer = Peer(self.box.pipe, "g", serve, stand_in, self.limited)
        return None

    @contextmanager
    def limited(self, more: int, arguments: int):
        """Limit the worker to ``more`` bytes of memory, and what the notebook hoarded before to `MOST_HOARDED`."""
        box = self.box
        try:
            with box.limited(more) as grown:
                if grown - arguments > MOST_HOARDED:
                    if self.notebooks > 1:
                        raise Crowded
                    held = f"{grown >> 20} MiB"
                    raise MemoryError(f"before the call the notebook already holds {held}")
                yield
        finally:
            if not box.filtered:  # the limit could not be lifted
                self.end()

    def _start_clock(self) -> None:
        now = time.monotonic()
        if now > self.last:
            raise TooMuch
        self.box.pipe.deadline = min(now + self.seconds, self.last)

    def _run_cells(self) -> None:
        for cell in self.cells:
            if cell.number in self.fatal:
                continue
            self._start_clock()
            try:
                self.peer.ask("run", cell.source, f"cell {cell.number}")
            except (Exception, SystemExit) as error:
                words = ": ".join(filter(None, (type(error).__name__, str(error))))
                self._note(f"cell {cell.number} raised {words}"[:300])
            except Lost as lost:
                self.fatal.add(cell.number)
                self._note(self._why(f"cell {cell.number}", lost))
                return self.end()
        self.has_run = True
        return None

    def _note(self, what: str) -> None:
        if what not in self.problems and len(self.problems) < MOST_NOTES:
            self.problems.append(what)

    def _ask(self, what: str, *args):
        """Ask the worker; an error in reply is a protocol violation (`Lost`)."""
        try:
            return self.peer.ask(what, *args)
        except (Exception, SystemExit) as error:
            raise Lost(f"what it sent is no message ({type(error).__name__})") from None

    def _why(self, what: str, lost: Lost) -> str:
        if "too long" in str(lost) and "sent" not in str(lost):
            return f"{what} took longer than {self.seconds:g} s"
        return f"{what} ended the worker" if str(lost) == "it ended" else f"{what}: {lost}"

    def judge(self, exercise: Exercise, seed: int) -> Verdict:
        """The verdict on one answer.

        Args:
            seed: seed of the inputs.

        Raises:
            NotGraded: there is no sandbox.
            MemoryError: the worker sent more than the judge can hold.
        """
        try:
            return self._judge(exercise, seed)
        except Crowded:
            self.end()
            return self.judge(exercise, seed)
        except TooMuch:
            reason = (
                "the notebook ended its worker too often or took too long; the rest was not judged"
            )
        except Lost as lost:
            reason = self._why("it", lost)
        self.end()
        return Verdict(exercise.name, "did not finish", 0, exercise.points, (reason,))

    def _judge(self, exercise: Exercise, seed: int) -> Verdict:
        self.start()
        self._start_clock()
        self.peer.begin()
        told = self._ask("begin", exercise.name, exercise.answer)
        expect(isinstance(told, tuple) and len(told) == 3)
        found, keeps, answer = told
        if found is not True:
            return not_found(exercise)
        if keeps is True:
            self.peer.remember()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return exercise.grade(answer, seed)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            why = f"it cannot be judged ({type(error).__name__})"
            return Verdict(exercise.name, "failed", 0, exercise.points, (why,))


def not_found(exercise: Exercise) -> Verdict:
    """The verdict on a missing answer; the finding says where it was looked for."""
    call = f'check("{exercise.name}", {exercise.answer})'
    why = f"there is no answer: neither {call} nor anything called {exercise.answer}"
    return Verdict(exercise.name, "not found", 0, exercise.points, (why,))
