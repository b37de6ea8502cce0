"""Which mistake is it? The known ones are observed like the answer; one that shows the same names it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain, plainly_apart
from attncourse.grading.symptoms import symptom

Observations = dict[str, Any]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give, and the sentence they should read.

    Args:
        says: the sentence.
        answer: the wrong answer.
        steps: the steps of a right `attncourse.grading.recipe.Recipe` that ``answer`` replaces;
            two mistakes that replace different steps can be made at once.
    """

    says: str
    answer: Any
    steps: dict[str, Callable] = field(default_factory=dict, repr=False)


Marked = dict[str, tuple[Any, tuple | None]]  # what was seen, and its fingerprint


def marked(seen: Observations) -> Marked:
    """Observations with their fingerprints."""
    return {what: (x, fingerprint(x)) for what, x in seen.items()}


class Shown:
    """What a mistake shows to a judge: looked at as far as anybody has asked, and then kept."""

    def __init__(self, observed: Iterable[tuple[str, Any]]):
        self.observed, self.kept = iter(observed), []

    def __iter__(self) -> Iterator[tuple[str, Any, tuple | None]]:
        yield from self.kept
        for what, x in self.observed:
            self.kept.append((what, x, fingerprint(x)))
            yield self.kept[-1]

    @property
    def first(self) -> tuple[str, Any, tuple | None]:
        """What it shows first."""
        return next(iter(self), ("", None, None))

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
        judge: observes them. It may have a ``notice(expected, seen, seed)``, one sentence or '': what only it
            can tell of a wrong answer that no mistake explains.
        mistakes: in the order in which they are compared.
        expected: what a right answer shows.
        seed: of the inputs.
    """

    def __init__(self, judge, mistakes: list[Mistake], expected: Observations, seed: int):
        self.judge, self.expected, self.seed = judge, expected, seed
        self.single = [(mistake, self._shown(mistake)) for mistake in mistakes]
        self.double: dict[tuple[int, int], tuple[Mistake, Shown]] = {}  # of those that were tried
        # `_first` of all mistakes, by what an answer shows first.
        self.firsts: dict[str, dict[Shown, tuple]] = {}

    def of(self, seen: Observations) -> tuple[str, str]:
        """The sentence of the mistake that shows the same, and what is noticed where there is none.

        Two mistakes at once are tried when no single one agrees, unless the answer did nothing but raise;
        failing that, a mistake counts that shows the same wherever the answer did not raise.
        """
        answer = marked(seen)
        right = self.expected
        gave = any(
            not isinstance(x, Raised) and what in right and difference(right[what], x)
            for what, x in seen.items()
        )
        for mistake, shown in chain(self.single, self._may_be(answer) if gave else ()):
            if shown.agrees(answer):
                return mistake.says, ""
        if says := self._where_it_ran(seen):
            return says, ""
        notice = getattr(self.judge, "notice", lambda *_: "")
        return "", notice(self.expected, seen, self.seed) or symptom(self.expected, seen)

    def _may_be(self, answer: Marked) -> Iterator[tuple[Mistake, Shown]]:
        """Two mistakes at once that may show what the answer shows first, by what either shows there alone.

        There are thousands of pairs, and a call of each takes seconds. Results have another form, or none, by one
        of the two; and where one of them changes nothing, both show what the other does.
        """
        what, (x, mark) = next(iter(answer.items()))
        right = form(what, self.expected.get(what), fingerprint(self.expected.get(what)))
        strange = {form(what, x, mark)} - {right}
        firsts = self.firsts.setdefault(what, {})
        for _, shown in self.single:
            if shown not in firsts:
                firsts[shown] = self._first(shown, what, right)
        for (one, a), (other, b) in combinations([x for x in self.single if x[0].steps], 2):
            if one.steps.keys() & other.steps.keys():
                continue
            (its, loud, form_of_it), (others, also, form_of_other) = firsts[a], firsts[b]
            forms = form_of_it | form_of_other
            if strange != forms and not (strange and form_of_it and form_of_other):
                continue
            if loud and also or alike(its if loud else others, mark):
                yield self._both(one, other)

    def _first(self, shown: Shown, what: str, right: tuple) -> tuple:
        """Of what a mistake shows first: the fingerprint, is it wrong, and its form where that is another."""
        label, x, mark = shown.first
        loud = label != what or bool(difference(self.expected.get(what), x))
        return mark, loud, {form(label, x, mark)} - {right}

    def _both(self, one: Mistake, other: Mistake) -> tuple[Mistake, Shown]:
        if (key := (id(one), id(other))) not in self.double:
            both = at_once(one, other)
            self.double[key] = both, self._shown(both)
        return self.double[key]

    def _shown(self, mistake: Mistake) -> Shown:
        return Shown(self.judge.observe(mistake.answer, self.seed))

    def _where_it_ran(self, seen: Observations) -> str:
        ran = {what: x for what, x in seen.items() if not isinstance(x, Raised)}
        right = self.expected
        wrong = [what for what in ran if what not in right or difference(right[what], ran[what])]
        # A yes, a number or a shape is shared by many mistakes; the numbers of a tensor, or words, are not.
        found = [x for what in wrong for x in parts(ran[what])]
        fine = any(isinstance(x, str) or isinstance(x, Tensor) and x.numel() > 3 for x in found)
        if len(ran) == len(seen) or not fine:
            return ""
        answer = marked(ran)
        return next((mistake.says for mistake, x in self.single if x.agrees(answer, False)), "")


def parts(result: Any) -> tuple:
    """The results of a call, several or one."""
    return result if isinstance(result, tuple) else (result,)


def at_once(one: Mistake, other: Mistake) -> Mistake:
    """Two mistakes that replace different steps, made at once."""
    says = f"Two mistakes at once. {one.says} {other.says}"
    return Mistake(says, replace(one.answer, **other.steps), {**one.steps, **other.steps})


def pairs_of(mistakes: list[Mistake]) -> list[Mistake]:
    """Any two of the mistakes that replace different steps, made at once."""
    return [
        at_once(one, other)
        for one, other in combinations([mistake for mistake in mistakes if mistake.steps], 2)
        if not one.steps.keys() & other.steps.keys()
    ]


def form(what: str, result: Any, mark: Any) -> tuple:
    """Shapes and kinds of a result, without its numbers."""
    return what, tuple(kind for kind, *_ in mark) if isinstance(mark, tuple) else type(result)


def fingerprint(result: Any) -> tuple | str | bool | None:
    """Shapes, kinds, sums and sizes of the numbers of a result: cheap to compare, and enough to tell most apart.

    The sum is `mixed`: weights of attention all have the same plain one.

    Words are their own.
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
    """A sum in which each place has a factor of its own from -1 to 1, so that what changes places has another sum."""
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
