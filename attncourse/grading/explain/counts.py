"""How does one get this number? For predictions, and for functions that return counts.

A wrong number is traced back to the right one by the few ways that people take: a factor, a term,
another rounding. All that give it are said, as what may have happened; else how far it is off.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from numbers import Real
from typing import Any

from attncourse.grading.compare import Close
from attncourse.grading.explain.asked import OUTPUT, Asked
from attncourse.grading.explain.shapes import orders

MOST = 64  # as a numerator or denominator, a larger number says nothing
WAYS = 3  # as many are said of one number
NEAR = 0.02  # this far from the right number, the difference says more than the ratio
PLAIN = sorted({2**a * 10**b for a in range(31) for b in range(10)} - {1})
ROOTS = (2, 3, 5, 8, 10, 32, 128)
RATIO = "taking the right one "  # of a number alone it says little, of several much
NO_NUMBER = "This is NaN or infinite: no number to compare."


@dataclass(frozen=True)
class Made:
    """What a right number is made of, in the words of the exercise.

    Args:
        factors: by their names, "the 60 layers"; below 1 what it is divided by.
        terms: what is added up, by their names.
        others: numbers that people get, by what they do: "counting one head".
        exact: a whole number before it is rounded; it may be one too many or too few, too.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)
    exact: float | None = None

    def ways(self, right: float, seen: float, rtol: float = 1e-9, atol: float = 0.0) -> list[str]:
        """All known ways to a wrong number, each as what one does: "counting one head"."""

        def given(ways: Iterator[tuple[str, float]]) -> list[str]:
            return [way for way, x in ways if _same(x, seen, rtol, atol)]

        found = given(self._named(right)) or given(self._two(right)) or given(_plain(right))
        return [*found, *given(self._related(right))]

    def _named(self, right: float) -> Iterator[tuple[str, float]]:
        yield from self.others.items()
        for name, x in self.terms.items():
            yield f"leaving out {name}", right - x
            yield f"counting {name} twice", right + x
            yield f"counting {name} alone", x
            yield f"taking {name} away", right - 2 * x
        for name, x in self.factors.items():
            yield f"leaving out {name}", right / x
            yield f"counting {name} twice", right * x

    def _two(self, right: float) -> Iterator[tuple[str, float]]:
        for (one, a), (other, b) in combinations(self.terms.items(), 2):
            yield f"leaving out {one} and {other}", right - a - b
        for (one, a), (other, b) in combinations(self.factors.items(), 2):
            yield f"leaving out {one} and {other}", right / a / b
            yield f"leaving out {one} and counting {other} twice", right / a * b
            yield f"leaving out {other} and counting {one} twice", right / b * a

    def _related(self, right: float) -> Iterator[tuple[str, float]]:
        yield "turning the sign of the right one", -right
        if right:
            yield "dividing 1 by the right one", 1 / right
        if 0 < right < 1:
            yield "subtracting the right one from 1", 1 - right
        if right > 0:
            yield "taking the root of the right one", right**0.5
            yield "taking the square of the right one", right**2
        exact = right if self.exact is None else self.exact
        if self.exact is not None:
            yield "not rounding", exact
            yield "counting one too many", right + 1
            yield "counting one too few", right - 1
        rounded = {
            "down": math.floor(exact),
            "up": math.ceil(exact),
            "to the nearest": round(exact),
        }
        yield from ((f"rounding {how}", x) for how, x in rounded.items() if not _same(x, right))
        for digits in range(1, 5):
            how = f"{digits} decimal{'s' * (digits > 1)}"
            yield f"rounding to {how}", round(exact, digits)
            yield f"cutting off after {how}", math.floor(exact * 10**digits) / 10**digits


def _plain(right: float) -> Iterator[tuple[str, float]]:
    """The factors that many things have: 2, 8, 32, 1,000, 1,024 for 1,000."""
    for n in PLAIN:
        yield f"multiplying the right one by {n:,}", right * n
        yield f"dividing the right one by {n:,}", right / n
    for n in ROOTS:
        yield f"multiplying the right one by sqrt({n})", right * n**0.5
        yield f"dividing the right one by sqrt({n})", right / n**0.5
    for times, often in enumerate(("", " twice", " three times"), 1):
        yield f"taking 1,024 for 1,000{often}", right * 1.024**times
        yield f"taking 1,000 for 1,024{often}", right / 1.024**times


def _same(x: float, seen: float, rtol: float = 1e-9, atol: float = 0.0) -> bool:
    """Is it this number, or its digits as far as they are written, three of them at least?"""
    if math.isclose(x, seen, rel_tol=max(rtol, 1e-9), abs_tol=atol):
        return True
    written = f"{seen:.10g}"
    decimals = len(written.partition(".")[2])
    exact = decimals and "e" not in written and len(written.strip("-0.").replace(".", "")) > 2
    return bool(exact) and round(x, decimals) == round(seen, decimals)


def _or(ways: Sequence[str]) -> str:
    return ", or by ".join(ways[:WAYS])


def _off(right: float, seen: float) -> str:
    """How far off a number is: a ratio, or a difference where it is near."""
    if not math.isfinite(seen):
        return "this is NaN or infinite"
    if right and seen and abs(seen / right - 1) > NEAR and right * seen > 0:
        return f"this is {seen / right:.4g} times the right number"
    return f"this is {abs(seen - right):.6g} too {'small' if seen < right else 'large'}"


def predicted(tells: Callable[[float], str], made: Made = Made()) -> Callable[[Asked], str]:
    """An explainer of one predicted number: the ways to it, and then a sentence on it.

    Args:
        tells: a finite number -> what is true of it, such as what would follow from it, or ''.
    """

    def explainer(asked: Asked) -> str:
        found, right = asked.seen.get("the number"), float(asked.expected["the number"].value)
        if not isinstance(found, Close) or found.value.dim():
            return ""
        number = float(found.value)
        if not math.isfinite(number):
            return NO_NUMBER
        ways = made.ways(right, number, found.rtol, found.atol)
        near = abs(number - right) < NEAR * abs(right)
        off = f"T{_off(right, number)[1:]}. " * near
        return f"{f'One gets this number by {_or(ways)}. ' if ways else off}{tells(number)}".strip()

    return explainer


def each_predicted(
    tells: Callable[[int, float], str], made: Sequence[Made]
) -> Callable[[Asked], str]:
    """An explainer of several predicted numbers: what those have in common that are wrong.

    Args:
        tells: (which number, a finite value of it) -> what is true of it, or ''; said of the first
            of those that have something in common.
        made: of each number.
    """

    def explainer(asked: Asked) -> str:
        names, wrong = asked.exercise.results, _wrong(asked)
        if not wrong:
            return f"Asked are {len(names)} numbers: {_and(names)}."
        if moved := _moved(asked):
            return moved
        says = []
        for places, ways in _together(_ways(asked, made)):
            right, seen = wrong[places[0]]
            several = [f"{k + 1} ({names[k]})" for k in places]
            them = "each of them" if len(places) > 1 else "this"
            how = f"one gets {them} by {_or(ways)}" if ways else _off(right, seen)
            first = tells(places[0], seen) if math.isfinite(seen) else ""
            says.append(f"Number{'s' * (len(places) > 1)} {_and(several)}: {how}. {first}".strip())
        return " ".join(says)

    return explainer


def common(asked: Asked, made: Sequence[Made]) -> str:
    """The ways that all wrong numbers of a prediction have in common; '' without any."""
    groups = _together(_ways(asked, made))
    if len(groups) != 1 or not groups[0][1]:
        return ""
    return f"One gets each of the {len(groups[0][0])} wrong numbers by {_or(groups[0][1])}. "


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _wrong(asked: Asked) -> dict[int, tuple[float, float]]:
    """The wrong numbers of a prediction by their places: the right one, and what was given."""
    found, right = asked.seen.get("the number"), asked.expected["the number"].value
    if not isinstance(found, Close) or found.value.shape != right.shape:
        return {}
    pairs = enumerate(zip(right.tolist(), found.value.tolist(), strict=True))
    off = {"rel_tol": found.rtol, "abs_tol": found.atol}
    return {k: (e, s) for k, (e, s) in pairs if not math.isclose(s, e, **off)}


def _moved(asked: Asked) -> str:
    """Right numbers in another order."""
    found, right = asked.seen["the number"], asked.expected["the number"].value.tolist()
    near = {"rel_tol": found.rtol, "abs_tol": found.atol}
    order = min(
        orders(right, found.value.tolist(), lambda e, s: math.isclose(s, e, **near)),
        key=lambda order: sum(k != at for k, at in enumerate(order)),
        default=(),
    )
    places = [f"number {k + 1} stands in place {at + 1}" for k, at in enumerate(order) if k != at]
    return f"The numbers are right, but in another order: {_and(places)}." if places else ""


def _ways(asked: Asked, made: Sequence[Made]) -> dict[int, list[str]]:
    """The ways to each wrong number, and last its ratio, which says little of one alone."""
    known, found = {}, asked.seen.get("the number")
    for k, (right, seen) in _wrong(asked).items():
        ratio = seen / right if right else 0.0
        told = math.isfinite(ratio) and ratio not in (0, 1)
        known[k] = made[k].ways(right, seen, found.rtol, found.atol)
        known[k] += [f"{RATIO}{ratio:.4g} times"] * told
    return known


def _together(known: dict[int, list[str]]) -> list[tuple[list[int], list[str]]]:
    """Places that have a way in common, as many as there can be, and all that they have."""
    left, groups = dict(known), []
    while left:
        often = Counter(way for ways in left.values() for way in dict.fromkeys(ways))
        way, most = max(often.items(), key=lambda both: both[1], default=("", 0))
        places = [k for k in left if way in left[k]] if most > 1 else [min(left)]
        shared = [x for x in left[places[0]] if all(x in left[k] for k in places)]
        better = [x for x in shared if not x.startswith(RATIO)]
        groups.append((places, better if better or most < 2 else shared))
        left = {k: ways for k, ways in left.items() if k not in places}
    return sorted(groups)


def of_number(asked: Asked) -> str:
    """The one factor, or the one term, by which every wrong number is off."""
    pairs = [
        (float(right), float(seen))
        for what, right in asked.expected.items()
        for right, seen in _numbers(right, asked.seen.get(what), what)
    ]
    wrong = [(right, seen) for right, seen in pairs if abs(right - seen) > 1e-6 * abs(right)]
    if not wrong:
        return ""
    where = f"In {len(wrong)} of {len(pairs)} cases the" if len(wrong) < len(pairs) else "The"
    where = "Where a number comes back, the" if asked.errors else where
    what = "numbers are" if len(wrong) > 1 else "number is"
    they = "they" if len(wrong) > 1 else "it"
    if any(seen < 0 <= right for right, seen in wrong) and all(
        seen == -right for right, seen in wrong
    ):
        return f"{where} {what} right but for the sign."
    if factor := _factor(wrong):
        return f"{where} {what} {factor} as large as {they} should be."
    terms = {round(seen - right, 6) for right, seen in wrong}
    if len(terms) == 1 and (term := terms.pop()) and abs(term) <= MOST and len(pairs) > 1:
        return f"{where} {what} {abs(term):g} too {'large' if term > 0 else 'small'}."
    return ""


def _numbers(right: Any, seen: Any, what: str) -> list[tuple[float, float]]:
    """Pairs of numbers of one observation; none where it is no number, or not of the same kind."""
    if isinstance(right, Close) and isinstance(seen, Close):
        a, b = right.value, seen.value
        pairs = zip(a.flatten().tolist(), b.flatten().tolist(), strict=False)
        return list(pairs) if a.shape == b.shape else []
    if isinstance(right, tuple) and isinstance(seen, tuple) and len(right) == len(seen):
        return [x for both in zip(right, seen, strict=True) for x in _numbers(*both, what)]
    real = (isinstance(x, Real) and not isinstance(x, bool) for x in (right, seen))
    return [(float(right), float(seen))] if all(real) and what.endswith(OUTPUT) else []


def _factor(wrong: list[tuple[float, float]]) -> str:
    """'3 times' or '2/3', where one small fraction explains all of them."""
    if any(right == 0 or seen == 0 for right, seen in wrong):
        return ""
    factors = [seen / right for right, seen in wrong]
    if any(abs(x / factors[0] - 1) > 1e-6 for x in factors):
        return ""
    found = Fraction(factors[0]).limit_denominator(MOST)
    exact = found and abs(float(found) / factors[0] - 1) < 1e-6
    if not exact or found == 1:
        return f"{factors[0]:.6g} times" if len(wrong) > 1 else ""
    if found.numerator > 4096:
        return ""
    return f"only {found}" if 0 < found < 1 else f"{found} times"
