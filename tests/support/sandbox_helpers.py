"""What the tests of the sandbox share: cells that run far away, and what they tell."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from attncourse.grading import load
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attngrade import Cell
from attngrade.far.sandbox import Limits, Sandbox
from attngrade.session import Session

MEBIBYTE = 2**20


class Told:
    """A judge that only listens to what the answer, a function, returns."""

    def __init__(self, args: tuple):
        self.args, self.told = args, None

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        self.told = answer(*self.args)
        yield "it spoke", True

    def expected(self, seed: int) -> dict[str, Any]:
        return {"it spoke": True}


def exercise(judge: Any, answer: str = "tell", forbids: tuple[str, ...] = ()) -> Exercise:
    """An exercise that no notebook has."""
    return Exercise(
        name="tiny", answer=answer, title="Tiny", kind="Implement", points=1, difficulty=1, minutes=1,
        needs="nothing", judge=judge, hints=("a", "b", "c"), accepted=Accepted(), mistakes=Mistakes(),
        forbids=forbids,
    )  # fmt: skip


def inside(sandbox: Sandbox, source: str, *args: Any, seconds: float = 20) -> Any:
    """What the function ``tell`` of a cell returns in a worker; the reason where it does not."""
    judge = Told(args)
    with Session(sandbox, [Cell(1, source)], seconds) as session:
        verdict = session.judge(exercise(judge), 0)
    return judge.told if verdict.status == "passed" else (verdict.findings, session.problems)


def walls_stand(state: str) -> None:
    """Skip the test where bubblewrap is not in force; on CI that is a failure."""
    if state != "in force":
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"bubblewrap: {state}")


def judged(box: Sandbox, *cells: str, name: Any = "causal_mask", seconds: float = 30) -> tuple:
    """The verdict on a notebook of these cells, and what went wrong in them."""
    cells = [Cell(2 * k, source) for k, source in enumerate(cells, start=1)]
    with Session(box, cells, seconds) as session:
        verdict = session.judge(load(name) if isinstance(name, str) else name, 7)
    return verdict, session.problems


# A worker needs some 900 MiB of addresses for torch alone, and few of them hold anything.
LIMITS = Limits(memory=1536 * MEBIBYTE, cpu=4, processes=8, files=2 * MEBIBYTE)


@contextmanager
def walled(kind: str) -> Iterator[Sandbox]:
    """A sandbox with "walls" or with "no walls", of a teacher who has a secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", "do not tell")
        with Sandbox(LIMITS, bubblewrap=kind == "walls") as box:
            if kind == "walls":
                walls_stand(box.protections[0][1])
            yield box
