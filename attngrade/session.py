"""One submission in its sandbox: run its cells, then judge its answers one by one."""

import time
import warnings
from collections.abc import Iterable
from contextlib import contextmanager, suppress

import torch

from attncourse.grading.exercise import Exercise
from attncourse.grading.verdict import Verdict
from attngrade import Cell
from attngrade.sandbox.calls import Calls
from attngrade.sandbox.peer import Peer, raised
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.wire import Lost
from attngrade.sandbox.stand_ins import stand_in

MOST_RESTARTS = 8
MOST_LIMITS = 15  # the whole submission may take so many times what one cell may
FAILED = [int, str, str, bool]  # a cell that raised: its place, and the error
MOST_HOARDED = 60 * 2**20  # bytes that a notebook may hold when the memory of a call is limited


class TooMuch(Exception):
    """The submission has ended its worker too often, or taken too long altogether."""


class Session:
    """A worker for one submission. What hangs or kills it is left out when it starts again.

    Args:
        sandbox: where it runs.
        cells: its code cells.
        seconds: of each cell, and of each exercise.

    ``problems`` says in whole sentences what went wrong in cells.
    """

    def __init__(self, sandbox: Sandbox, cells: Iterable[Cell], seconds: float):
        self.sandbox, self.cells, self.seconds = sandbox, list(cells), seconds
        self.problems: list[str] = []
        self.fatal: set[int] = set()
        self.together, self.names = True, None
        self.pipe, self.restarts = None, 0
        self.last = time.monotonic() + MOST_LIMITS * seconds

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self) -> None:
        """End the worker."""
        if self.pipe:
            self.sandbox.end(self.pipe)
            self.pipe = None

    def start(self) -> None:
        """A fresh worker in which all cells have run, but those that end it.

        Raises:
            TooMuch: it was ended too often, or there is no time left.
        """
        while self.pipe is None:
            if self.restarts > MOST_RESTARTS:
                raise TooMuch
            self.restarts += 1
            self.pipe = self.sandbox.open()
            calls = Calls(lambda: self.peer.objects)
            serve = {"call": calls.call, "vjp": calls.vjp}
            self.peer = Peer(self.pipe, "g", serve, stand_in, self.limited)
            self._run_cells()

    @contextmanager
    def limited(self, more: int, arguments: int):
        """The worker gets only so much more memory; what it has hoarded before is no way around."""
        grown = self.sandbox.limit(more) - arguments
        if grown > MOST_HOARDED:
            raise MemoryError(f"before the call the notebook already holds {grown >> 20} MiB")
        try:
            yield
        finally:
            self.restarts -= 1
            self.end()  # a limit cannot be lifted for everybody; the next exercise gets a fresh worker

    def _start_clock(self) -> None:
        now = time.monotonic()
        if now > self.last:
            raise TooMuch
        self.pipe.deadline = min(now + self.seconds, self.last)

    def _run_cells(self) -> None:
        """Together they are one message; if that fails, each runs alone, to know which one it is."""
        cells = [cell for cell in self.cells if cell.number not in self.fatal]
        for group in [cells] if self.together else [[cell] for cell in cells]:
            self._start_clock()
            try:
                named = [[cell.source, f"cell {cell.number}"] for cell in group]
                self._note_errors(group, self._ask_to_run(named))
            except Lost as lost:
                if self.together:
                    self.together = False
                    self.restarts -= 1
                else:
                    self.fatal.add(group[0].number)
                    self.problems.append(self._why(f"cell {group[0].number}", lost))
                return self.end()
        return None

    def _ask_to_run(self, named: list[list[str]]) -> list:
        try:
            failed, self.names = self.peer.ask("run", named)
            if all([type(x) for x in entry] == FAILED for entry in failed):
                return failed
        except (Exception, SystemExit):  # cells raise over there; what comes back is no list
            pass
        raise Lost("what it sent is no message")

    def _note_errors(self, group: list[Cell], failed: list) -> None:
        for number, *what in failed[: len(group)]:
            error = raised(*what)
            number = group[number % len(group)].number
            words = ": ".join(filter(None, (type(error).__name__, str(error))))
            note = f"cell {number} raised {words}"[:300]
            if note not in self.problems and len(self.problems) < 20:
                self.problems.append(note)

    def _why(self, what: str, lost: Lost) -> str:
        if "too long" in str(lost) and "sent" not in str(lost):
            return f"{what} took longer than {self.seconds:g} s"
        return f"{what} ended the worker" if str(lost) == "it ended" else f"{what}: {lost}"

    def without_answer(self, exercises: list[Exercise]) -> set[str]:
        """Names of the exercises for which there is no answer: nobody need ask for those."""
        try:
            self.start()
        except (Lost, TooMuch):
            self.end()
        names = self.names if isinstance(self.names, list) else [None]
        if any(type(name) is not str for name in names):  # not all is known, so each is asked for
            return set()
        return {e.name for e in exercises if not {e.name, e.answer} & set(names)}

    def judge(self, exercise: Exercise, seed: int) -> Verdict:
        """The verdict on one answer."""
        try:
            self.start()
            self._start_clock()
            return self._judge(exercise, seed)
        except TooMuch:
            reason = (
                "the notebook ended its worker too often or took too long; the rest was not judged"
            )
            self.end()
        except Lost as lost:
            reason = self._why("it", lost)
            self.end()
        return Verdict(exercise.name, "did not finish", 0, exercise.points, (reason,))

    def _judge(self, exercise: Exercise, seed: int) -> Verdict:
        self.peer.begin()
        order = exercise.name, exercise.answer, list(exercise.forbids)
        try:
            found, keeps, answer = self.peer.ask("begin", *order)
        except (Exception, SystemExit) as error:
            raise Lost(f"its answer cannot be had ({type(error).__name__})") from None
        if keeps is True:
            self.peer.remember()
        if not found:
            return not_found(exercise)
        torch.default_generator.manual_seed(seed)
        with suppress(Exception, SystemExit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return exercise.grade(answer, seed)
        return Verdict(exercise.name, "failed", 0, exercise.points, ("it cannot be judged",))


def not_found(exercise: Exercise) -> Verdict:
    """The verdict on an answer that is not there, and where it was looked for."""
    call = f'check("{exercise.name}", {exercise.answer})'
    why = f"there is no answer: neither {call} nor anything called {exercise.answer}"
    return Verdict(exercise.name, "not found", 0, exercise.points, (why,))
