"""Mutants of the right answers of an exercise, judged: what does the student read?"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from attncourse.grading import load
from attncourse.grading.check import shown
from attncourse.grading.isolation import torch_defaults
from fresh.apart import TooLong, limited
from fresh.evidence import Evidence, Questions
from fresh.heard import leading, sentences
from fresh.mutants import Mutant, drawn
from fresh.truth import checked

SEEDS = range(3)
FRESH = 100  # to the seed of inputs that no verdict has seen
SECONDS = 2.0  # of the processor for one verdict on one mutant
PATIENCE = 4  # mutants that are looked at, for each that is wanted


@dataclass
class Judged:
    """The mutants of one exercise.

    Args:
        rows: of each wrong one its style, operator, before, after, code, seed, shown and true.
        same: right ones, which the slip does not change.
        endless: those that gave no verdict in time.
    """

    name: str
    rows: list[dict] = field(default_factory=list)
    same: list[dict] = field(default_factory=list)
    endless: list[dict] = field(default_factory=list)

    @property
    def told(self) -> int:
        """How many hear a sentence that leads to the mistake."""
        return sum(map(bool, leading(self.rows)))

    @property
    def share(self) -> float:
        """The same as a share of all."""
        return self.told / max(1, len(self.rows))

    @property
    def claims(self) -> list[bool | None]:
        """Of each sentence beyond numbers that differ: is it true?"""
        return [true for _, line, true in self._said() if sentences([line])]

    @property
    def false(self) -> list[str]:
        """What was said and is not true, and of which mutant."""
        return [f"{slip(row)}: {line}" for row, line, true in self._said() if true is False]

    def _said(self) -> Iterator[tuple[dict, str, bool | None]]:
        """Each mutant with each of its lines."""
        for row in self.rows:
            for line, true in zip(row["shown"], row["true"], strict=True):
                yield row, line, true


def slip(row: dict) -> str:
    """What was changed in which right answer."""
    return f"{row['style']} ({row['operator']}): {row['before'][:90]} -> {row['after'][:90]}"


def judged(name: str, count: int, seed: int = 0) -> Judged:
    """Verdicts on so many wrong mutants that show different things; called in a process of its own."""
    warnings.simplefilter("ignore")  # here, too, where tests make errors of them
    torch.use_deterministic_algorithms(True)  # what nobody wrote is NaN, and the same in every run
    exercise, result, known, asked = load(name), Judged(name), set(), {}
    for number, mutant in enumerate(drawn(exercise, seed)):
        if len(result.rows) == count or number == PATIENCE * count:
            break
        told = {
            "style": mutant.source.style, "operator": mutant.operator, "before": mutant.before,
            "after": mutant.after, "code": mutant.code,
        }  # fmt: skip
        if (answer := defined(mutant)) is None:
            continue
        try:
            verdict, at = verdict_on(exercise, answer)
        except TooLong:
            result.endless.append(told)
            continue
        if verdict is None:
            result.same.append(told)
        elif verdict.status == "failed" and (verdict.findings, verdict.diagnosis) not in known:
            known.add((verdict.findings, verdict.diagnosis))
            read = shown(verdict)
            for other in (at, at + FRESH):
                if other not in asked:
                    asked[other] = questions(exercise, other, mutant.source.answer)
            truth = truths((asked[at], asked[at + FRESH]), answer, read)
            result.rows.append(told | {"seed": at, "shown": read, "true": truth})
    return result


def questions(exercise: Any, seed: int, right: Any) -> Questions | None:
    """What the judge asks; None where it asks something else than its cases, so that a right answer looks wrong."""
    with torch_defaults():
        asked = Questions(exercise, seed)
        return None if Evidence(asked, right).wrong else asked


def truths(asked: tuple, answer: Any, read: list[str]) -> list[bool | None]:
    """Of each line: is it true of the answer? None where nobody can tell.

    Args:
        asked: the questions that were judged, and fresh ones. A line that names no call must be
            true of both.
    """
    unknown = [None] * len(read)
    if None in asked:
        return unknown
    try:
        with limited(PATIENCE * SECONDS), torch_defaults():
            one, other = (Evidence(x, answer) for x in asked)
            true = [checked(line, one) for line in read]
            of_all = [x and not any(call.label in line for call in one.calls)
                      for x, line in zip(true, read, strict=True)]  # fmt: skip
            return [
                x if not general else checked(line, other) is not False
                for x, line, general in zip(true, read, of_all, strict=True)
            ]
    except TooLong:
        return unknown


def defined(mutant: Mutant) -> Any | None:
    """The answer; None where Python refuses its definition before any check does."""
    try:
        with limited(SECONDS):
            return mutant.answer()
    except (Exception, TooLong):
        return None


def verdict_on(exercise: Any, answer: Any) -> tuple[Any, int]:
    """The first verdict that is not "passed", and its seed; (None, -1) for an answer that is right on all."""
    for seed in SEEDS:
        with limited(SECONDS):
            verdict = exercise.grade(answer, seed)
        if verdict.status != "passed":
            return verdict, seed
    return None, -1
