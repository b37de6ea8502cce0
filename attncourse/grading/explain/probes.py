"""Simpler questions, each decided by one rule: which is the first that the answer gets wrong?"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.counts import NOTHING, Made, in_words
from attncourse.grading.numerals import opened
from attncourse.grading.observe import Case

NEAR = 1e-3
MOST = 200  # characters of one result


def simpler(*questions: tuple[str, tuple], result: int | None = None) -> Callable[[Asked], str]:
    """An explainer that asks the answer again, and tells the first question that is answered wrong.

    Where the answer raises, or gives a tensor of another shape, other explainers say more.

    Args:
        questions: what decides, as a sentence without its point, and the arguments.
        result: which of several results this decides, if not all.
    """
    cases = [Case(says, args, gradients=False) for says, args in questions]
    only = slice(None) if result is None else slice(result, result + 1)

    def explainer(asked: Asked) -> str:
        for case, right, seen in asked.again(cases):
            if isinstance(right, Tensor):
                if says := _first_row(right, seen):
                    return f"{case.label}. {says}"
                continue
            right, seen = opened(right), opened(seen)
            if isinstance(right, tuple) and isinstance(seen, tuple):
                right, seen = right[only], seen[only]
            unexpected = isinstance(seen, Raised) and not isinstance(right, Raised)
            if _written(right) != _written(seen) and not unexpected:
                return f"{case.label}. {_so(list(asked.exercise.results[only]), right, seen)}."
        return ""

    return explainer


def _so(names: list[str], right: Any, seen: Any) -> str:
    """The right result beside that of the answer; of several named ones those that are wrong."""
    several = isinstance(right, tuple) and isinstance(seen, tuple)
    if not several or not len(names) == len(right) == len(seen):
        return f"So it is {_written(right)}; the answer gives {_written(seen)}"
    both = zip(names, map(_written, right), map(_written, seen), strict=True)
    wrong = [f"{name} should be {one} and is {other}" for name, one, other in both if one != other]
    return f"So {' and '.join(wrong)}"


def _first_row(right: Tensor, seen: Any) -> str:
    """The first wrong row of a tensor of the right shape."""
    if not plain(seen) or seen.shape != right.shape or not difference(right, seen):
        return ""
    rows = zip(right.flatten(0, -2), seen.flatten(0, -2), strict=True)
    at, (row, other) = next((k, both) for k, both in enumerate(rows) if difference(*both))
    return (
        f"So row {at % right.size(-2)} is {_written(opened(row))}; the answer gives "
        f"{_written(opened(other))}."
    )


def _written(found: Any) -> str:
    """Numbers as they are; of an error its kind."""
    if isinstance(found, Raised):
        return f"a {found.kind}"
    if isinstance(found, tuple):
        text = f"({', '.join(map(_written, found))})"
        return text if len(text) < MOST else f"{text[:MOST]}...)"
    if isinstance(found, float):
        return f"{found:.6g}"
    return str(found)[:60]


def doubled(
    *arguments: float, result: int = 0, made: Made | None = None, near: Mapping = NOTHING
) -> Callable[[Asked], str]:
    """An explainer of a formula: how does the answer grow where one argument doubles?

    Args:
        arguments: all numbers, such that rounding makes no difference to the right one.
        result: which of several results is looked at.
        made: what makes it other times as large; its other ways are given for 1.
        near: what makes it one too small, -1, or too large, 1.
    """
    places = range(len(arguments))
    twice = [[x * 2 if k == at else x for k, x in enumerate(arguments)] for at in places]

    def number(found: Any) -> float:
        found = opened(found)
        return float(found[result] if isinstance(found, tuple) else found)

    def explainer(asked: Asked) -> str:
        named = asked.exercise.results
        it = named[result] if named else "the answer"
        names = asked.arguments
        cases = [Case("", tuple(x), gradients=False) for x in (arguments, *twice)]
        found = [tuple(map(number, both)) for _, *both in asked.again(cases)]
        (right, seen), *others = found
        wrong = [
            f"where {name} doubles, by {other / seen:.3g} instead of {one / right:.3g}"
            for name, (one, other) in zip(names, others, strict=True)
            if abs(other / seen - one / right) > NEAR
        ]
        given = ", ".join(f"{name}={x:,}" for name, x in zip(names, arguments, strict=True))
        if wrong:
            return f"From {given} on {it} is multiplied by other numbers: {'; '.join(wrong)}."
        if abs(seen / right - 1) > NEAR:
            ways = made.ways(1.0, seen / right) if made else []
            how = f" One gets that by {in_words(ways)}." if ways else ""
            return f"With {given} {it} is {seen / right:.4g} times the right number.{how}"
        if seen == right:
            return ""
        off = f"With {given} {it} is {seen:,.10g} instead of {right:,.10g}"
        return f"{off}, which is whole without any rounding. {near.get(seen - right, '')}".strip()

    return explainer
