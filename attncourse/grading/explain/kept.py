"""Is something kept between calls that changes other ones?"""

from torch import Tensor

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked, Wrong
from attncourse.grading.judges import AGAIN, OVERWRITTEN

KEPT = "something is kept between calls"


def kept_between(asked: Asked) -> str:
    """Right results that turn wrong once others were made; or wrong ones of later calls alone."""
    told = str(asked.seen.get(AGAIN, ""))
    if told.startswith(OVERWRITTEN):
        which = told.removeprefix(f"{OVERWRITTEN}: ")
        return f"The same memory is returned again and again: {which}. Make a new tensor each time."
    if not asked.wrong and told.startswith("no: "):
        which = told.removeprefix("no: ")
        return f"All is right the first time. Asked in the opposite order, {which}: {KEPT}."
    right = {x.label: x for x in asked.calls if not difference(x.expected, x.seen)}
    pairs = [(x, right.get(x.label.rpartition("; ")[0])) for x in asked.wrong]
    if not pairs or not all(before and _alike(x, before) for x, before in pairs):
        return ""
    call, before = pairs[0]
    changed = call.label.rpartition("; ")[2]
    if not difference(before.expected, call.seen):
        return (
            f"All other calls are right, but {changed} the call '{before.label}' gives the result "
            f"of before: {KEPT} that should be made anew."
        )
    return (
        "All calls are right but for those that repeat the sizes of an earlier one, such as "
        f"'{call.label}'. If {KEPT}, this call is right when it is the first: try it."
    )


def _alike(call: Wrong, before: Wrong) -> bool:
    """Have the tensors of two calls the same sizes?"""
    one, other = ([y.shape for y in x.case.args if isinstance(y, Tensor)] for x in (call, before))
    return one == other
