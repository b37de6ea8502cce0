"""Which mistake is it? Known ones are observed like the answer; one that shows the same names it.

First come the ideas of the exercise, then the one-step mistakes that follow from its right answer.
Where none shows the same, the explainers look at what came back (`attncourse.grading.explain`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.changes import slips_of
from attncourse.grading.compare import Raised, difference, plain, plainly_apart
from attncourse.grading.dataflow import Dataflow
from attncourse.grading.explain import explain
from attncourse.grading.explain.asked import Asked, Wrong
from attncourse.grading.explain.steps import first_missing, made_values
from attncourse.grading.judges import Calls
from attncourse.grading.mistake import Mistake
from attncourse.grading.mistakes import mistakes_of
from attncourse.grading.observe import output_of
from attncourse.grading.recipe import Recipe

MOST = 200  # slips that are tried
Observations = dict[str, Any]
Marked = dict[str, tuple[Any, Any]]  # what was seen, and its fingerprint


class Shown:
    """What a mistake shows to a judge: looked at as far as anybody has asked, and then kept."""

    def __init__(self, observed: Iterable[tuple[str, Any]], mistake: Mistake):
        self.mistake, self.observed = mistake, iter(observed)
        self.kept: list[tuple[str, Any, Any]] = []

    def __iter__(self) -> Iterator[tuple[str, Any, Any]]:
        yield from self.kept
        for what, x in self.observed:
            self.kept.append((what, x, fingerprint(x)))
            yield self.kept[-1]

    def agrees(self, seen: Marked, all_of_it: bool = True) -> bool:
        """Does the mistake show everything in ``seen``, and (if ``all_of_it``) nothing else?"""
        for what, _, mark in self.kept:  # most mistakes are told apart by what is known already
            if not alike(mark, seen[what][1]) if what in seen else all_of_it:
                return False
        count = 0
        for what, x, mark in self:
            if what in seen:
                found, its = seen[what]
                if not alike(mark, its) or plainly_apart(x, found) or difference(x, found):
                    return False
                count += 1
            elif all_of_it:
                return False
        return count == len(seen)


class Diagnosis:
    """The known mistakes of an exercise on the inputs of one seed.

    Args:
        exercise: its judge, ideas and right answer.
        seed: of the inputs.
    """

    def __init__(self, exercise: Any, seed: int):
        self.exercise, self.seed = exercise, seed
        self.ideas = [self._shown(mistake) for mistake in exercise.ideas]
        self._slips: list[Shown] | None = None
        self._looks: dict[tuple[int, str], tuple] = {}  # what slips give in single calls

    @property
    def slips(self) -> list[Shown]:
        """The one-step mistakes of the right answer, where its steps are named."""
        if self._slips is None:
            self._slips = [self._shown(mistake) for mistake in self._one_step()]
        return self._slips

    def of(self, asked: Asked) -> tuple[str, str]:
        """The sentence of the mistake that shows the same, and an explainer's where none does."""
        answer = marked(asked.seen)
        for shown in self.ideas:
            if shown.agrees(answer):
                return shown.mistake.says, ""
        if any(not isinstance(x, Raised) for x in asked.seen.values()):
            for shown in self._nearest(asked):
                if shown.agrees(answer):
                    return shown.mistake.says, ""
        if says := self._where_it_ran(asked):
            return says, ""
        return "", explain(asked, self.exercise.explain)

    def _nearest(self, asked: Asked) -> Iterator[Shown]:
        """The slips that give what the answer gives in a small call, the nearest first.

        Near are those of the first step that the answer does not make; what it makes is no slip.
        """
        if asked.wrong and all(isinstance(x.seen, Raised) for x in asked.wrong):
            return  # errors alone tell nothing of steps
        slips, place, right = self.slips, first_missing(asked) if self.slips else None, asked.right
        if place is not None and place < len(right):
            near = set(right[place].by or (right[place].called,))
            there = made_values(asked)
            made = {x for v in right if v.called in there for x in v.by or (v.called,)}
            slips = [x for x in slips if not made - near >= x.mistake.steps.keys()]
            slips = sorted(slips, key=lambda x: not near & x.mistake.steps.keys())
        small = asked.smallest if type(asked.judge) is Calls else None
        mark = small and fingerprint(small.seen)
        for slip in slips[:MOST]:
            if small is None or self._looks_like(slip, small, mark):
                yield slip

    def _looks_like(self, slip: Shown, call: Wrong, mark: Any) -> bool:
        """Does the slip give the same in this call, whose output has this fingerprint?"""
        if (key := (id(slip), call.label)) not in self._looks:
            found = output_of(slip.mistake.answer, call.case)
            self._looks[key] = found, fingerprint(found)
        found, its = self._looks[key]
        return alike(its, mark) and not difference(found, call.seen)

    def _shown(self, mistake: Mistake) -> Shown:
        return Shown(self.exercise.judge.observe(mistake.answer, self.seed), mistake)

    def _one_step(self) -> list[Mistake]:
        """The mistakes that change one step of the right answer, in the first call of the judge."""
        right, judge = self.exercise.right, self.exercise.judge
        if isinstance(right, Recipe):
            return mistakes_of(right)
        if isinstance(right, Dataflow):
            return slips_of(right, getattr(judge, "calls", judge).listed(self.seed)[0])
        return []

    def _where_it_ran(self, asked: Asked) -> str:
        """The idea that shows the same wherever the answer did not raise."""
        right, seen = asked.expected, asked.seen
        ran = {what: x for what, x in seen.items() if not isinstance(x, Raised)}
        wrong = [what for what in ran if what not in right or difference(right[what], ran[what])]
        # Many mistakes share a yes, a number or a shape, but not the numbers of a tensor, or words.
        found = [x for what in wrong for x in parts(ran[what])]
        fine = any(isinstance(x, str) or isinstance(x, Tensor) and x.numel() > 3 for x in found)
        if len(ran) == len(seen) or not fine:
            return ""
        answer = marked(ran)
        return next((x.mistake.says for x in self.ideas if x.agrees(answer, False)), "")


def parts(result: Any) -> tuple:
    """The results of a call, several or one."""
    return result if isinstance(result, tuple) else (result,)


def fingerprint(result: Any) -> tuple | str | bool | None:
    """Shapes, kinds, sums and sizes of the numbers of a result, which tell most results apart.

    The sum is `mixed`: weights of attention all have the same plain one. Words are their own.
    """
    if isinstance(result, str | bool):
        return result
    several = parts(result)
    if not several or not all(map(plain, several)):
        return None
    numbers = [x.double().nan_to_num(7.0, 1e9, -1e9) for x in several]
    sums = [(mixed(x), 2e-4 * x.numel() + 2e-3 * float(x.abs().sum())) for x in numbers]
    kinds = [(x.shape, x.is_floating_point()) for x in several]
    return tuple((kind, *s) for kind, s in zip(kinds, sums, strict=True))


def mixed(numbers: Tensor) -> float:
    """A sum with a factor of its own for each place, from -1 to 1: it shows what changes places."""
    places = torch.arange(numbers.numel(), dtype=torch.float64, device=numbers.device)
    return float(numbers.flatten() @ places.cos())


def alike(one: Any, other: Any) -> bool:
    """May these be fingerprints of the same result?"""
    if not (isinstance(one, tuple) and isinstance(other, tuple)) or len(one) != len(other):
        return type(one) is type(other) and one == other
    return all(
        shape == same and abs(a - b) <= margin
        for (shape, a, margin), (same, b, _) in zip(one, other, strict=True)
    )


def marked(seen: Observations) -> Marked:
    """Observations with their fingerprints."""
    return {what: (x, fingerprint(x)) for what, x in seen.items()}
