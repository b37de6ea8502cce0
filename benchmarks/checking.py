"""CPU time of a check: of right answers, and of wrong ones, with what is said of them.

    python benchmarks/checking.py [exercise ...]

Wrong answers are right ones with one step changed (tests/exercises/fresh). Without names all exercises are measured
and ``results/checking.json`` is written.
"""

import copy
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from results import write_table

from attncourse.grading import load, names
from attncourse.grading.exercise import Exercise

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "exercises"))
from fresh.apart import TooLong, limited  # noqa: E402
from fresh.mutants import drawn  # noqa: E402
from fresh.sources import right_answers  # noqa: E402

WRONG = 6  # mutants of an exercise
LIMITS = {"right": (10, 40), "wrong": (60, 250)}  # ms: of the median, and of 95 %


def milliseconds(exercise: Exercise, answer: Any) -> float:
    """One check; a judge may change a model, so it gets a copy."""
    given = copy.deepcopy(answer)
    started = time.process_time()
    exercise.grade(given)
    return 1000 * (time.process_time() - started)


def right_times(exercise: Exercise) -> list[float]:
    """The shorter of two checks of each right answer, once the judge knows what is right."""
    exercise.grade(copy.deepcopy(exercise.right))
    answers = right_answers(exercise).values()
    return [min(milliseconds(exercise, answer) for _ in range(2)) for answer in answers]


def wrong_times(exercise: Exercise) -> list[float]:
    """Checks of wrong answers."""
    return [milliseconds(exercise, x) for x in islice(wrong_answers(exercise), WRONG)]


def wrong_answers(exercise: Exercise) -> Iterator[Any]:
    """Right answers with one step changed that end, and fail."""
    for mutant in islice(drawn(exercise), 5 * WRONG):
        try:
            with limited(2.0):
                answer = mutant.answer()
                failed = exercise.grade(answer).status == "failed"
        except TooLong:
            continue
        if failed:
            yield answer  # out of the limit: what follows has its own time


def row(kind: str, times: dict[str, list[float]]) -> list:
    """Median and 95 % of all checks, beside their limits, and the dearest five exercises."""
    every = [x for several in times.values() for x in several]
    most = quantiles(every, n=20)[-1] if len(every) > 1 else every[0]
    dearest = sorted((name for name in times if times[name]), key=lambda x: -median(times[x]))[:5]
    named = ", ".join(f"{name} {median(times[name]):.0f}" for name in dearest)
    middle, last = LIMITS[kind]
    return [kind, len(every), f"{median(every):.1f}", middle, f"{most:.0f}", last, named]


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[float]]] = {kind: {} for kind in LIMITS}
    for name in sys.argv[1:] or names():
        exercise = load(name)
        if exercise.left_out():
            continue
        for kind, times in zip(LIMITS, (right_times, wrong_times), strict=True):
            found[kind][name] = times(exercise)
        print(name, *([round(x) for x in found[kind][name]] for kind in LIMITS), flush=True)
    rows = [row(kind, found[kind]) for kind in LIMITS]
    if sys.argv[1:]:
        return print(*rows, sep="\n")
    write_table(
        "checking",
        caption="Milliseconds of a check, by kind of answer",
        note="CPU time on one thread, by benchmarks/checking.py: of all right answers, and of right ones with one step "
        "changed. Models that are trained are given ready-made.",
        columns=["answer", "checks", "median", "limit", "95 %", "limit of 95 %", "dearest five"],
        rows=rows,
    )
    return None


if __name__ == "__main__":
    main()
