"""Only large scores give wrong results: what depends on their size?"""

from dataclasses import replace

import torch

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import Case

ONLY_LOUD = (
    "All calls with ordinary scores are right; with large ones not. Something depends on size: an "
    "exponential without the largest score of the row subtracted, a clamp, a small number that is "
    "added, a number in the place of minus infinity, or a low precision."
)
LOW = tuple(10.0**k for k in range(1, 10))


def finite_fill(asked: Asked) -> str:
    """How low all scores may be before hidden keys count, where only large scores are wrong."""
    names = [name.rstrip("s") for name in asked.arguments]
    ordinary = next((x.case for x in asked.calls if x.case and "scores" not in x.label), None)
    if not {"query", "key"} <= set(names) or not asked.only_loud or ordinary is None:
        return ""
    places = names.index("query"), names.index("key")
    for case, right, seen in asked.again([_lowered(ordinary, places, low) for low in LOW]):
        if not (plain(seen) and bool(seen.isfinite().all())):
            return ""
        if difference(right, seen):
            return (
                f"Where all scores are {case.label}, hidden keys count, or take weight away: is "
                "what hides them a number of about this size? Only minus infinity is below every "
                "score."
            )
    return ""


def _lowered(case: Case, places: tuple[int, int], low: float) -> Case:
    """The call with one and the same score for all pairs."""
    query, key = (torch.ones_like(case.args[place]) for place in places)
    args = list(case.args)
    args[places[0]], args[places[1]] = -query, key * low / query.size(-1) ** 0.5
    return replace(case, label=f"-{low:g}", args=tuple(args), gradients=False)


def only_loud(asked: Asked) -> str:
    """Calls with ordinary scores are right."""
    return ONLY_LOUD if asked.only_loud and len(asked.wrong) < len(asked.calls) else ""
