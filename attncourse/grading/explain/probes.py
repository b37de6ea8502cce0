"""Simpler questions, each decided by one rule: which is the first that the answer gets wrong?"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.numerals import opened
from attncourse.grading.observe import Case


def simpler(*questions: tuple[str, tuple]) -> Callable[[Asked], str]:
    """An explainer that asks the answer again, and tells the first question that is answered wrong.

    Where the answer raises, or gives a tensor of another shape, other explainers say more.

    Args:
        questions: what decides, as a sentence without its point, and the arguments.
    """
    cases = [Case(says, args, gradients=False) for says, args in questions]

    def explainer(asked: Asked) -> str:
        for case, right, seen in asked.again(cases):
            if isinstance(right, Tensor):
                if says := _first_row(right, seen):
                    return f"{case.label}. {says}"
                continue
            right, seen = opened(right), opened(seen)
            unexpected = isinstance(seen, Raised) and not isinstance(right, Raised)
            if _written(right) != _written(seen) and not unexpected:
                return f"{case.label}. {_so(list(asked.exercise.results), right, seen)}."
        return ""

    return explainer


def _so(names: list[str], right: Any, seen: Any) -> str:
    """The right result beside that of the answer; of several named ones those that are wrong."""
    several = isinstance(right, tuple) and isinstance(seen, tuple)
    if not several or not len(names) == len(right) == len(seen):
        return f"So it is {_written(right)}; the answer gives {_written(seen)}"
    both = zip(names, map(_written, right), map(_written, seen), strict=True)
    wrong = [f"{name} is {one}, and not {other}" for name, one, other in both if one != other]
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
        return f"({', '.join(map(_written, found))})"
    if isinstance(found, float):
        return f"{found:.6g}"
    return str(found)[:60]
