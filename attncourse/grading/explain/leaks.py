"""Calls that agree up to a token and differ behind it: does the answer let the future in?"""

from collections.abc import Callable

import torch

from attncourse.grading.compare import plain
from attncourse.grading.explain.asked import Asked, tensors


def leaked(kept: int | None, *twins: str) -> Callable[[Asked], str]:
    """An explainer that compares the first call with its twins.

    Args:
        kept: rows of each result, along the axis before the last, that may not differ; None: all.
        twins: what the calls behind the first have changed, one after the other.
    """

    def explainer(asked: Asked) -> str:
        first = asked.calls[0]
        for changed, twin in zip(twins, asked.calls[1:], strict=False):
            for one, other in tensors(first.seen, twin.seen):
                if not (plain(one) and plain(other)) or one.shape != other.shape or one.dim() < 2:
                    return ""
                rows = (~torch.isclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)).movedim(
                    -2, 0
                )
                moved = rows[:kept].flatten(1).any(1).nonzero().flatten().tolist()
                if moved:
                    return (
                        f"'{first.label}' and '{twin.label}' differ in {changed} only, yet the "
                        f"results of query {moved[0]} differ: the future gets in."
                    )
        return ""

    return explainer
