"""Which property have the wrong calls, and the right ones not?"""

from collections.abc import Iterator

import torch
from torch import Tensor

from attncourse.grading.explain.asked import Asked, sizes_of
from attncourse.grading.observe import Case

FEWEST = 2  # wrong calls, and right ones
Fact = tuple[str, str]  # what holds, and what holds where it does not
ONLY_LOUD = (
    "All calls with ordinary scores are right; with large ones not. Something depends on size: an "
    "exponential without the largest score of the row subtracted, a clamp, a small number that is "
    "added, a largest score among hidden keys, a number in the place of minus infinity, or a low "
    "precision."
)


def only_loud(asked: Asked) -> str:
    """Calls with ordinary scores are right."""
    return ONLY_LOUD if asked.only_loud and len(asked.wrong) < len(asked.calls) else ""


def which_calls(asked: Asked) -> str:
    """The first property that all wrong calls have and no right one has, or the other way round."""
    wrong = {x.label for x in asked.wrong}
    facts = [(x.label in wrong, dict(_facts(x.case, asked.arguments))) for x in asked.calls]
    bad, good = ([f for is_wrong, f in facts if is_wrong is x] for x in (True, False))
    if min(len(bad), len(good)) < FEWEST:
        return ""
    for fact in facts[0][1]:
        if not all(fact in f for _, f in facts):
            continue
        for value in (True, False):
            if all(f[fact] is value for f in bad) and all(f[fact] is not value for f in good):
                holds, fails = fact if value else fact[::-1]
                return f"Wrong are exactly the calls in which {holds}; where {fails}, all is right."
    return ""


def _facts(case: Case, names: list[str]) -> Iterator[tuple[Fact, bool]]:
    """What holds of a call: sentences, and whether they do."""
    given = dict(zip(names, case.args, strict=False)) | case.kwargs
    for name, x in given.items():
        if isinstance(x, bool):
            yield (f"{name} is True", f"{name} is False"), x
        if x is None or isinstance(x, Tensor):
            yield (f"{name} is None", f"{name} is given"), x is None
        if isinstance(x, Tensor) and x.dtype == torch.bool and x.dim() > 1:
            yield (f"{name} hides nothing", f"{name} hides something"), bool(x.all())
            rows = bool((~x.any(-1)).any())
            yield (f"{name} has a row of False alone", f"{name} has no row of False alone"), rows
    for name, size in sizes_of(names, case):
        yield (f"{name} is 1", f"{name} is not 1"), size == 1
        yield (f"{name} is 0", f"{name} is not 0"), size == 0
