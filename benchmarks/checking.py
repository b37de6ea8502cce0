"""CPU time of a check: of a right answer, and of a wrong one with what is said of it.

    python benchmarks/checking.py [exercise ...]

Without names all exercises are measured and ``results/checking.json`` is written. An answer is checked once
before it is timed: the judge then knows its right answer and its ideas, as at every check but the first.
"""

import copy
import importlib
import pkgutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from results import write_table

from attncourse.grading import load, names
from attncourse.grading.compare import Close
from attncourse.grading.exercise import Exercise

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "exercises"))
import styles  # noqa: E402
import unseen  # noqa: E402

MOST = 12  # wrong answers of an exercise, spread over its list
REPEATS = 3
LIMITS = {"right": 10, "wrong, listed": 60, "wrong, not listed": 60}  # ms, of the medians


class Checks(NamedTuple):
    """Medians of one exercise in milliseconds; None where it has no such answer."""

    right: float | None
    listed: float | None
    unlisted: float | None


def milliseconds(exercise: Exercise, answer: Any) -> float:
    """The shortest of several checks; a judge may change a model, so each gets a copy."""
    times = []
    for _ in range(REPEATS):
        given = copy.deepcopy(answer)
        started = time.process_time()
        exercise.grade(given)
        times.append(1000 * (time.process_time() - started))
    return min(times)


def of(exercise: Exercise, answers: Iterable[Any]) -> float | None:
    """The median over these answers."""
    times = [milliseconds(exercise, answer) for answer in answers]
    return median(times) if times else None


def unexplained(exercise: Exercise, entries: list) -> list:
    """The wrong answers of the tests that show none of the known mistakes."""
    answers = (x.answer() if x.made else x.answer for x in entries if not x.passes)
    failed = ((x, exercise.grade(copy.deepcopy(x))) for x in answers)
    return [x for x, verdict in failed if verdict.status == "failed" and not verdict.diagnosis]


def spread(answers: list) -> list:
    """At most `MOST` of them, evenly."""
    return answers[:: -(-len(answers) // MOST) or 1]


def checks(name: str, entries: list) -> Checks:
    """Time the checks of an exercise."""
    exercise = load(name)
    patterns = Close  # of numbers: no answers
    listed = [x.answer for x in exercise.ideas if not isinstance(x.answer, patterns)]
    right = [exercise.right, *styles.of(name).values()]
    for answer in (*right, *listed[:1]):
        exercise.grade(copy.deepcopy(answer))
    return Checks(
        of(exercise, right),
        of(exercise, spread(listed)),
        of(exercise, spread(unexplained(exercise, entries))),
    )


def tables() -> dict[str, list]:
    """The answers of the tests that no exercise lists, by exercise."""
    found = defaultdict(list)
    for module in pkgutil.iter_modules(unseen.__path__):
        importlib.import_module(f"unseen.{module.name}")
        for entry in unseen.ENTRIES.get(module.name, ()):
            found[entry.exercise].append(entry)
    return found


def row(kind: str, times: dict[str, float], limit: int) -> list:
    """Median, limit, how many are above it, and the dearest five."""
    dearest = sorted(times, key=times.get, reverse=True)[:5]
    above = sum(x > limit for x in times.values())
    named = ", ".join(f"{name} {times[name]:.0f}" for name in dearest)
    return [kind, len(times), f"{median(times.values()):.1f}", limit, above, named]


def main() -> None:
    torch.set_num_threads(1)
    entries, found = tables(), {}
    for name in sys.argv[1:] or names():
        if not load(name).left_out():
            found[name] = checks(name, entries[name])
            print(name, *(x and round(x, 1) for x in found[name]), flush=True)
    if sys.argv[1:]:
        return
    columns = (
        {name: x[k] for name, x in found.items() if x[k] is not None} for k in range(len(LIMITS))
    )
    write_table(
        "checking",
        caption="Milliseconds of a check, by kind of answer",
        note="CPU time on one thread, by benchmarks/checking.py: the median over the answers of each exercise, then over "
        "the exercises. Models that are trained are given ready-made; the first check of an exercise in a process takes longer.",
        columns=["answer", "exercises", "median", "limit", "exercises above it", "dearest five"],
        rows=[row(*each) for each in zip(LIMITS, columns, LIMITS.values(), strict=True)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
