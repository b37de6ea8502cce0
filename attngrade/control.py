"""Controls: a right answer is graded now and then; where it gets no points, the grader is at fault."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from attngrade import File, Order, Result
from attngrade.journal import Journal
from attngrade.pool import Crew
from attngrade.settings import Settings, Stopped

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
    """A notebook with a right answer, as if a student had handed it in."""
    cells = [{"cell_type": "code", "metadata": {}, "source": RIGHT, "outputs": []}]
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    data = json.dumps(notebook).encode()
    return Order("a control", (File("control.ipynb", hashlib.sha256(data).hexdigest(), data),))


def controlled(
    crew: Crew, orders: Iterable[Order], settings: Settings, journal: Journal
) -> Iterator[Result]:
    """The result of every order, graded between controls: one before all, one every fifty, one at the end.

    Raises:
        Stopped: a control was not graded as right. What was graded since the last good one is withdrawn
            from the journal.
        NoSandbox: the settings demand a sandbox, and there is none.
    """
    whole = replace(settings, chapters=())

    def check() -> tuple[Order, Settings, int]:
        return control(), whole, journal.size

    def between() -> Iterator[tuple[Order, Settings, int | None]]:
        for number, order in enumerate(orders, start=1):
            yield order, settings, None
            if number % EVERY == 0:
                yield check()

    for stage in (lambda: [check()], between, lambda: [check()]):
        for start, result in crew.results(stage()):
            if start is None:
                yield result
            elif why := fault(result):
                raise Stopped(_stop(why, journal.withdraw()))
            else:
                journal.prove(start)


def fault(result: Result) -> str:
    """Why a right answer was not graded as right; empty where it was."""
    found = [x for one in result.files for x in one.verdicts if x.name == EXERCISE]
    if any(x.status == "passed" for x in found):
        return ""
    said = [*(y for x in found for y in x.findings), *(y for x in result.files for y in x.problems)]
    return " ".join(said)[:500] or "nothing is known about why"


def _stop(why: str, withdrawn: int) -> str:
    lost = f"{withdrawn} students graded since the last good control are withdrawn. " * (
        withdrawn > 0
    )
    return (
        f"A right answer, graded as a control, did not pass: {why.rstrip('.')}. {lost}"
        "The fault is this machine's or the grader's: mend it, and give the same command again"
    )
