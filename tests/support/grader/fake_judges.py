"""Judges that fail as no submission should make them fail, and one that gives up early; each in a process of its own."""

import os
import signal
import time

from attncourse.grading.verdict import Verdict
from attngrade import Graded, judge, session

MOST_STARTS = 1  # that the impatient one allows after the first
RIGHT, WRONG = Verdict("a", "passed", 2, 2), Verdict("b", "failed", 0, 1)


def dying(order, settings, progress, parent):
    """Dies at exercise b of the first file: once, or again and again where the student is so called."""
    if 0 not in progress.files:
        parent.send(("begin", (0, "a")))
        parent.send(("verdict", (0, "a"), progress.verdicts.get((0, "a"), RIGHT)))
        parent.send(("begin", (0, "b")))
        seen = os.path.exists(settings.course)
        open(settings.course, "w").close()
        why = progress.hopeless.get((0, "b"))
        if not why and (order.student == "always" or not seen):
            os.kill(os.getpid(), signal.SIGKILL)
        last = Verdict("b", "not graded", 0, 1, (why,)) if why else WRONG
        parent.send(("file", 0, Graded("one", "", (progress.verdicts[0, "a"], last))))
    parent.send(("end", True, ()))


def refused(order, settings, progress, parent):
    """No sandbox starts for the first file."""
    for place in range(len(order.files)):
        if place not in progress.files and (place, "") not in progress.hopeless:
            parent.send(("begin", (place, "")))
            if place == 0:
                return parent.send(("failed", "There is no sandbox."))
            parent.send(("file", place, Graded("two", "", (RIGHT,))))
    return parent.send(("end", True, ()))


def silent(order, settings, progress, parent):
    """Says nothing, for longer than anyone waits."""
    parent.send(("begin", (0, "")))
    time.sleep(600)


def deaf(order, settings, progress, parent):
    """Says whether Ctrl-C would have ended it before it could do anything about that."""
    deaf = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    parent.send(("failed", "It ignores Ctrl-C." if deaf else "Ctrl-C ends it."))


def greedy(order, settings, progress, parent):
    """Takes what the limits of an honest judge do not allow: memory, or time."""
    judge.be_bounded()
    parent.send(("begin", (0, "")))
    if order.student == "memory":
        try:
            bytes(2 * judge.MEMORY)  # twice: what is freed meanwhile does not make room for it
        except MemoryError:
            return parent.send(("failed", "no memory"))
    judge.SECONDS = -1
    judge.spend()
    while True:
        time.monotonic()


def impatient(order, settings, progress, parent):
    """Gives a notebook up sooner than others do: every start takes seconds."""
    session.MOST_STARTS = MOST_STARTS
    judge.judge(order, settings, progress, parent)
