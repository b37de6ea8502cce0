"""Simpler questions that one rule decides: which is the first that the answer gets wrong?"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.explain.asked import Asked
from attncourse.grading.numerals import opened
from attncourse.grading.observe import Case


def simpler(*questions: tuple[str, tuple]) -> Callable[[Asked], str]:
    """An explainer that asks the answer again, and tells the first question that is answered wrong.

    Args:
        questions: what decides, as a sentence up to the right result, and the arguments.
    """
    cases = [Case(says, args, gradients=False) for says, args in questions]

    def explainer(asked: Asked) -> str:
        for case, right, seen in asked.again(cases):
            right, seen = _written(opened(right)), _written(opened(seen))
            if right != seen:
                return f"{case.label}: {right}; the answer gives {seen}."
        return ""

    return explainer


def _written(found: Any) -> str:
    """Numbers as they are; of an error its kind."""
    if isinstance(found, Raised):
        return f"a {found.kind}"
    if isinstance(found, tuple):
        return f"({', '.join(map(_written, found))})"
    if isinstance(found, float):
        return f"{found:.6g}"
    return (
        f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else str(found)[:60]
    )
