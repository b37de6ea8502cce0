"""Tables of decisions, or of whole numbers: which rule do the wrong places break?"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attncourse.grading.explain.asked import Asked

MOST = 3  # rules in one sentence


def kinds(of: Callable[..., Iterator[tuple[str, Tensor]]]) -> Callable[[Asked], str]:
    """An explainer that sorts the wrong places of a table by the rule that decides them.

    Args:
        of: ``of(expected, seen, *arguments)``: sentences without their points, and the places where
            each is true; of a wrong place the first one counts.
    """

    def explainer(asked: Asked) -> str:
        found: dict[str, str] = {}
        told = ""
        for call in asked.shaped:
            right, seen = call.expected, call.seen.cpu()
            if (right.dtype == torch.bool) != (seen.dtype == torch.bool):
                return ""
            left = right != seen
            for what, places in of(right, seen, *call.case.args):
                here, left = left & places, left & ~places
                if here.any():
                    where = "" if told == call.label else f"in the call '{call.label}' "
                    where = f"{where}at {here.nonzero()[0].tolist()}"
                    told = told if what in found else call.label
                    found.setdefault(what, f"{what} ({where})")
        told = "; ".join(list(found.values())[:MOST])
        return f"Wrong is what this rule decides: {told}." if found else ""

    return explainer
