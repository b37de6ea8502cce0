"""Controls: a right answer that is graded now and then. If it gets no points, the grader is at fault."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import nbformat
from nbformat import v4

from attngrade import File, Order, Result
from attngrade.journal import Journal
from attngrade.pool import Crew, Work
from attngrade.settings import NoSandbox, Settings, Stopped

EVERY = 50
EXERCISE = "scaled_dot_product_attention"
RIGHT = f"""
import math
import torch
from attncourse.grading import check

def {EXERCISE}(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights

check("{EXERCISE}", {EXERCISE})
"""


def control() -> Order:
    """An order with a right answer, as if a student had handed it in."""
    data = nbformat.writes(v4.new_notebook(cells=[v4.new_code_cell(RIGHT, id="right")])).encode()
    return Order("a control", (File("control.ipynb", hashlib.sha256(data).hexdigest(), data),))


def controlled(
    crew: Crew, orders: Iterable[Order], settings: Settings, journal: Journal
) -> Iterator[Result]:
    """The result of every order; controls are graded first, after every fifty orders, and last.

    Raises:
        Stopped: a control did not pass. Results since the last good control are withdrawn from the journal.
        NoSandbox: the settings demand a sandbox that cannot be had.
    """
    whole = replace(settings, chapters=(), sandbox=False)

    def check() -> Work:
        return control(), whole, journal.size

    def students() -> Iterator[Work]:
        for number, order in enumerate(orders, start=1):
            yield order, settings, None
            if number % EVERY == 0:
                yield check()

    for stage in (lambda: [check()], students, lambda: [check()]):
        for began, result in crew.results(stage()):
            if began is None:
                yield result
                continue
            if settings.sandbox and not result.official:
                raise NoSandbox(result.protections[0][1])
            if why := fault(result):
                lost = journal.unproven
                journal.withdraw()
                raise Stopped(
                    f"A control, which is a right answer, did not pass: {why.rstrip('.')}. What was graded "
                    f"since the last good one ({lost} students) does not count. The fault is the grader's or this "
                    "machine's: mend it, and give the same command again"
                )
            journal.prove(began)


def fault(result: Result) -> str:
    """Why a control did not pass; empty where it did."""
    verdicts = [x for one in result.files for x in one.verdicts if x.name == EXERCISE]
    if any(x.status == "passed" for x in verdicts):
        return ""
    said = [
        *(y for x in verdicts for y in x.findings),
        *(y for x in result.files for y in x.problems),
    ]
    return " ".join(said)[:500] or "nobody knows why"
