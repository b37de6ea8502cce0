"""How does one get this number? For predictions, and for functions that return counts.

A wrong number is traced back to the right one by the few ways that people take: a factor, a term,
another rounding. All that give it are said, as what may have happened; else how far it is off.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple

from attncourse.grading.compare import Close
from attncourse.grading.explain.asked import Asked, listed, tensors
from attncourse.grading.explain.shapes import order

WAYS = 3  # as many are said of one number
NEAR = 0.02  # this far from the right number, the difference says more than the ratio
PLAINLY = 5e-4  # as near a plain factor must be: there are so many that one always is near
PLAIN = sorted({2**a * 10**b for a in range(31) for b in range(10)} - {1})
NOTHING: Mapping[str, Any] = MappingProxyType({})
OFF = "is "  # no way, but how far off
Ways = Iterator[tuple[str, float]]  # what one does, and which number it gives


class Made(NamedTuple):
    """What a right number is made of, in the words of the exercise.

    Args:
        factors: by their names, "the 60 layers"; below 1 what it is divided by.
        terms: what is added up, by their names.
        others: numbers that people get, by what they do: "counting one head".
        exact: a whole number before it is rounded; it may be one too many or too few, too.
    """

    factors: Mapping[str, float] = NOTHING
    terms: Mapping[str, float] = NOTHING
    others: Mapping[str, float] = NOTHING
    exact: float | None = None

    def ways(self, right: float, seen: float, rtol: float = 1e-9, atol: float = 0.0) -> list[str]:
        """All known ways to a wrong number, each as what one does: "counting one head"."""

        def given(*ways: Iterable[tuple[str, float]]) -> list[str]:
            return [way for each in ways for way, x in each if _same(x, seen, rtol, atol)]

        plain = [way for way, x in _plain(right) if _same(x, seen, min(rtol, PLAINLY), 0.0)]
        found = given(self.others.items(), self._parts(right, 1)) or given(self._parts(right, 2))
        rounded = [way for way, x in self._rounded(right) if math.isclose(x, seen)]
        return [*(found or plain), *given(self._related(right)), *rounded]

    def _parts(self, right: float, count: int) -> Ways:
        """So many parts are left out or counted twice."""
        steps = [(name, 1.0, x) for name, x in self.terms.items()]
        steps += [(name, x, 0.0) for name, x in self.factors.items()]
        steps = [(f"leaving out {name}", 1 / x, -y) for name, x, y in steps] + [
            (f"counting {name} twice", x, y) for name, x, y in steps
        ]
        for some in combinations(steps, count):
            if len({how.partition(" ")[0] for how, *_ in some}) > 1:
                continue  # one left out and one counted twice may be the same
            found = right
            for _, times, more in some:
                found = found * times + more
            yield " and ".join(how for how, *_ in some), found

    def _related(self, right: float) -> Ways:
        yield "turning the sign of the right one", -right
        if right:
            yield "dividing 1 by the right one", 1 / right
        if 0 < right < 1:
            yield "subtracting the right one from 1", 1 - right
        if self.exact is not None:
            yield "not rounding", self.exact
            yield "counting one too many", right + 1
            yield "counting one too few", right - 1

    def _rounded(self, right: float) -> Ways:
        exact = right if self.exact is None else self.exact
        if exact > 1:  # 0 and 1 have other reasons
            yield "rounding down", math.floor(exact)
            yield "rounding up", math.ceil(exact)
            yield "rounding to the nearest", round(exact)
        for digits in range(1, 5):
            how = f"{digits} decimal{'s' * (digits > 1)}"
            yield f"rounding to {how}", round(exact, digits)
            yield f"cutting off after {how}", math.floor(exact * 10**digits) / 10**digits


def _plain(right: float) -> Ways:
    """The factors that many things have: 2, 8, 32, sqrt(2), 1,000, 1,024 for 1,000."""
    for n in PLAIN:
        yield f"multiplying the right one by {n:,}", right * n
        yield f"dividing the right one by {n:,}", right / n
    for n in (2, 3, 5, 8, 10, 32, 128):
        yield f"multiplying the right one by sqrt({n})", right * n**0.5
        yield f"dividing the right one by sqrt({n})", right / n**0.5
    for times, often in enumerate(("", " twice", " three times"), 1):
        yield f"taking 1,024 for 1,000{often}", right * 1.024**times
        yield f"taking 1,000 for 1,024{often}", right / 1.024**times


def _same(x: float, seen: float, rtol: float, atol: float) -> bool:
    """Is it this number, or its digits as far as they are written, three of them at least?"""
    if 0 in (x, seen):
        return x == seen
    if math.isclose(x, seen, rel_tol=max(rtol, 1e-9), abs_tol=atol):
        return True
    written = f"{seen:.10g}"
    decimals = len(written.partition(".")[2])
    exact = decimals and "e" not in written and len(written.strip("-0.").replace(".", "")) > 2
    return bool(exact) and round(x, decimals) == round(seen, decimals)


def _off(right: float, seen: float) -> list[str]:
    """How far off a number is: a ratio if it is not near, and the difference."""
    if not math.isfinite(seen):
        return [f"{OFF}NaN or infinite"]
    digits, size = 7 if seen % 1 else 12, "small" if seen < right else "large"
    off = [f"{OFF}{abs(seen - right):,.{digits}g} too {size}"]
    far = right * seen > 0 and abs(seen / right - 1) > NEAR
    return [f"{OFF}{seen / right:.4g} times the right number", *off] if far else off


def in_words(ways: Sequence[str]) -> str:
    """The first ways, as they go on behind "by"."""
    known = [way for way in ways if not way.startswith(OFF)]
    return ", or by ".join(known[:WAYS])


def predicted(
    tells: Callable[..., str], *made: Made, whole: Mapping[str, Sequence[float]] = NOTHING
) -> Callable[[Asked], str]:
    """An explainer of a predicted number, or of several: the ways to what is wrong, and a fact.

    Args:
        tells: (which number, where there are several; its value) -> what is true of it, or ''.
        made: of each number; several are called as the results of the exercise are.
        whole: all numbers that follow from another reading, by what one does.
    """

    def explainer(asked: Asked) -> str:
        names, pairs = asked.exercise.results, _pairs(asked)
        if not pairs:
            return f"Asked are {len(names)} numbers: {listed(names)}." if names else ""
        if names and (says := _all(asked, pairs, whole)):
            return says
        wrong = {k: both for k, both in pairs.items() if not _near(asked, *both)}
        says = ""
        for places, ways in _together(_ways(asked, made, wrong)):
            seen = wrong[places[0]][1]
            says += _how([f"{k + 1} ({names[k]})" for k in places] if names else [], ways)
            if math.isfinite(seen) and (len(places) == 1 or ways[0].startswith(OFF)):
                says += f"{tells(*places[: bool(names)], seen)} "
        return says.strip().replace("  ", " ")

    return explainer


def _how(which: Sequence[str], ways: Sequence[str]) -> str:
    """How one gets these numbers, by their names, or the only one; or how far off they are."""
    known, many = ways and not ways[0].startswith(OFF), len(which) > 1
    if not which:
        how = f"One gets this number by {in_words(ways)}" if known else f"This {''.join(ways[:1])}"
        return f"{how}. " if ways else ""
    this = "each" if many else "this"
    how = f"one gets {this} by {in_words(ways)}" if known else f"{this} {ways[0]}"
    return f"Number{'s' * many} {listed(which)}: {how}. "


def _all(asked: Asked, pairs: dict[int, tuple[float, float]], whole: Mapping) -> str:
    """Are all numbers right in another order, or do all follow from another reading?"""
    right, seen = zip(*pairs.values(), strict=True)
    at = enumerate(order([(right, seen)], partial(_near, asked)))
    if moved := [f"number {k + 1} stands in place {place + 1}" for k, place in at if k != place]:
        return f"The numbers are right, but in another order: {listed(moved)}."
    same = (how for how, numbers in whole.items() if all(map(partial(_near, asked), numbers, seen)))
    return next((f"One gets these numbers by {how}." for how in same), "")


def common(asked: Asked, *made: Made) -> str:
    """The ways that give all numbers of a prediction, the right ones, too; '' without any."""
    pairs = {k: both for k, both in _pairs(asked).items() if any(both)}
    groups = _together(_ways(asked, made, pairs))
    if len(groups) != 1 or not (ways := groups[0][1]):
        return ""
    known = not ways[0].startswith(OFF)
    return f"One gets these numbers by {in_words(ways)}. " if known else f"Each {ways[0]}. "


def _pairs(asked: Asked) -> dict[int, tuple[float, float]]:
    """The numbers of a prediction by their places: the right one, and what was given."""
    found, right = asked.seen.get("the number"), asked.expected["the number"].value
    if not isinstance(found, Close) or found.value.shape != right.shape:
        return {}
    return dict(
        enumerate(zip(right.flatten().tolist(), found.value.flatten().tolist(), strict=True))
    )


def _near(asked: Asked, x: float, seen: float) -> bool:
    """Is it this number, within the tolerance of the judge?"""
    judged = asked.seen["the number"]
    return math.isclose(seen, x, rel_tol=judged.rtol, abs_tol=judged.atol)


def _ways(
    asked: Asked, made: Sequence[Made], pairs: dict[int, tuple[float, float]]
) -> dict[int, list[str]]:
    """The ways to each of these numbers, and last how far off it is, if more than one is asked."""
    known, judged = {}, asked.seen["the number"]
    for k, (right, seen) in pairs.items():
        near = abs(seen - right) <= NEAR * abs(right)
        known[k] = made[k].ways(right, seen, judged.rtol, judged.atol)
        told = near or len(made) > 1 or not math.isfinite(seen)
        known[k] += _off(right, seen) * told
    return known


def _together(known: dict[int, list[str]]) -> list[tuple[list[int], list[str]]]:
    """Places that have a way in common, as many as there can be, and all that they have."""
    left, groups = dict(known), []
    while left:
        often = Counter(way for ways in left.values() for way in dict.fromkeys(ways))
        way, most = max(often.items(), key=lambda both: both[1], default=("", 0))
        places = [k for k in left if way in left[k]] if most > 1 else [min(left)]
        groups.append((places, [x for x in left[places[0]] if all(x in left[k] for k in places)]))
        left = {k: ways for k, ways in left.items() if k not in places}
    return sorted(groups)


def of_number(asked: Asked) -> str:
    """What all wrong numbers of the calls of a function have in common."""
    every = [both for x in asked.calls for both in tensors(x.expected, x.seen)]
    pairs = [x for x in every if all(isinstance(y, Real) and not isinstance(y, bool) for y in x)]
    for how, of in (("up", math.ceil), ("down", math.floor), ("to the nearest", round)):
        if 0 < len(pairs) == len(every) and all(of(seen) == right for right, seen in pairs):
            return f"Rounded {how}, all numbers are right."
    wrong = {
        k: [*Made(exact=right).ways(right, seen), *_off(right, seen)]
        for k, (right, seen) in enumerate(pairs)
        if right != seen
    }
    groups = _together(wrong)
    if len(groups) != 1 or not groups[0][1]:
        return ""
    where = f"In {len(wrong)} of {len(pairs)} cases" if len(wrong) < len(pairs) else "In all cases"
    where = "Where a number comes back," if len(pairs) < len(every) else where
    ways = in_words(groups[0][1])
    how = f"one gets the number by {ways}" if ways else f"the number {groups[0][1][0]}"
    return f"{where} {how}."
