"""By which factor or term is a number off? For predictions and functions that return counts."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any

from attncourse.grading.compare import Close
from attncourse.grading.explain.asked import OUTPUT, Asked

MOST = 64  # as a numerator or denominator, a larger number says nothing


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


def predicted(tells: Callable[[float], str]) -> Callable[[Asked], str]:
    """An explainer for one predicted number: the sentence on it, such as what would follow from it.

    Args:
        tells: a finite number -> a sentence, or ''.
    """

    def explainer(asked: Asked) -> str:
        found = asked.seen.get("the number")
        if not isinstance(found, Close) or found.value.dim():
            return ""
        number = float(found.value)
        unknown = "This is NaN or infinite: no number to compare."
        return tells(number) if math.isfinite(number) else unknown

    return explainer


def each_predicted(
    questions: Sequence[str], tells: Callable[[int, float], str]
) -> Callable[[Asked], str]:
    """An explainer for several predicted numbers: a sentence on each that is wrong.

    Args:
        questions: what each number is asked for, in a few words.
        tells: (which number, a finite value of it) -> a sentence.
    """

    def explainer(asked: Asked) -> str:
        found, right = asked.seen.get("the number"), asked.expected["the number"]
        if not isinstance(found, Close) or found.value.shape != right.value.shape:
            return ""
        pairs = zip(right.value.tolist(), found.value.tolist(), strict=True)
        told = [
            f"Number {k + 1} ({questions[k]}): {_told(right, number, partial(tells, k))}"
            for k, (right, number) in enumerate(pairs)
            if not math.isclose(number, right, rel_tol=found.rtol, abs_tol=found.atol)
        ]
        return " ".join(told)

    return explainer


def _told(right: float, number: float, tells: Callable[[float], str]) -> str:
    if not math.isfinite(number):
        return "this is NaN or infinite."
    if abs(number - right) < 0.02 * abs(right):
        return "this is close, but all digits count."
    return tells(number) or f"this is too {'small' if number < right else 'large'}."


def calls_by(
    *kinds: tuple[str, Callable[[int, int], bool]], order: Sequence[str] = ()
) -> Callable[[Asked], str]:
    """An explainer that sorts the wrong calls of a function that returns whole numbers.

    Args:
        kinds: sentences that end before the calls, and ``of(expected, seen)``.
        order: the labels of all calls; the last ones tell most.
    """

    def explainer(asked: Asked) -> str:
        wrong = sorted(asked.wrong, key=lambda x: order.index(x.label) if order else 0)
        if any(type(x.seen) is not int for x in wrong):
            return ""
        if len(wrong) > 6 and len({x.seen - x.expected for x in wrong}) == 1:
            return ""  # that is one term too many, everywhere
        says = []
        for how, of in kinds:
            *others, last = [x.label for x in wrong if of(x.expected, x.seen)] or [""]
            more = f"; and {len(others) - 2} more" * (len(others) > 2)
            says += [f"{how}: {'; '.join([*others[-2:], last])}{more}."] * bool(last)
        return " ".join(says)

    return explainer
