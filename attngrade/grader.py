"""Grade one student: start a judge, collect its verdicts, and start another judge if it fails."""

import multiprocessing
from collections import Counter
from multiprocessing.connection import Connection

from attngrade import Graded, Order, Result
from attngrade.judge import Progress, Step, judge
from attngrade.settings import Settings

TRIES = 2  # failures of the grader at one step
MOST_FAILURES = 6  # failures of the grader for one student
PATIENCE = 60  # seconds beyond the limit of a notebook

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["attngrade.server"])


def grade(order: Order, settings: Settings) -> Result:
    """The result of one student. No submission makes this function raise.

    A step at which the grader fails twice is not graded, which is no student's 0.
    """
    return _Attempts(order, settings).result()


class _Attempts:
    """The judges of one student, one after another, until every step is done or given up."""

    def __init__(self, order: Order, settings: Settings):
        self.order, self.settings, self.progress = order, settings, Progress()
        self.step: Step = (0, "")
        self.official, self.protections, self.why = True, (), ""

    def result(self) -> Result:
        failures: Counter[Step] = Counter()
        while failures.total() < MOST_FAILURES and not self._attempt():
            failures[self.step] += 1
            if failures[self.step] >= TRIES:
                self.progress.hopeless[self.step] = self.why
        places = range(len(self.order.files))
        files = tuple(self.progress.files.get(place) or self._given_up(place) for place in places)
        complete = not self.progress.hopeless and len(self.progress.files) == len(files)
        return Result(
            self.order.student, self.order.digest, files, self.official, self.protections, complete
        )

    def _given_up(self, place: int) -> Graded:
        file = self.order.files[place]
        why = f"Not graded: {self.progress.hopeless.get((place, ''), self.why)}"
        verdicts = [v for (where, _), v in self.progress.verdicts.items() if where == place]
        return Graded(file.name, file.digest, tuple(verdicts), (why,), (why,))

    def _attempt(self) -> bool:
        """Run a judge on the remaining steps; True if it came to the end."""
        ours, theirs = _forkserver.Pipe(duplex=False)
        arguments = self.order, self.settings, self.progress, theirs
        process = _forkserver.Process(target=judge, args=arguments, daemon=False)
        process.start()
        theirs.close()
        try:
            return self._listen(ours)
        finally:
            process.kill()
            process.join()
            ours.close()

    def _listen(self, judge: Connection) -> bool:
        self.why = "The judge ended."
        while judge.poll(self.settings.notebook_seconds + PATIENCE):
            try:
                kind, *told = judge.recv()
            except EOFError:
                return False
            match kind, *told:
                case "begin", step:
                    self.step = step
                case "verdict", step, verdict:
                    self.progress.verdicts[step] = verdict
                case "file", place, graded:
                    self.progress.files[place] = graded
                case "failed", why:
                    self.why = why
                    return False
                case "end", official, protections:
                    self.official, self.protections = official, protections
                    return True
        self.why = "The judge took too long."
        return False
