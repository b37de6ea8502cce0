"""Is something kept between calls that changes other ones?"""

from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import Asked, Wrong
from attncourse.grading.judges import AGAIN, OVERWRITTEN

LARGE = 1000
KEPT = "something is kept between calls"


def kept_between(asked: Asked) -> str:
    """Right results that turn wrong once others were made; or wrong ones of later calls alone."""
    told = str(asked.seen.get(AGAIN, ""))
    if told.startswith(OVERWRITTEN):
        which = told.removeprefix(f"{OVERWRITTEN}: ")
        return f"The same memory is returned again and again: {which}. Make a new tensor each time."
    which = told.removeprefix("no: ")
    if says := _of_earlier(asked):
        return says
    if told != which and not difference(asked.calls[0].expected, asked.calls[0].seen):
        first = "The first call is right" if asked.wrong else "All is right the first time"
        return f"{first}. Asked in the opposite order, {which}: {KEPT}, or drawn at random."
    right = {x.label: x for x in asked.calls if not difference(x.expected, x.seen)}
    pairs = [(x, right.get(x.label.rpartition("; ")[0])) for x in asked.wrong]
    if not pairs or not all(before and _alike(x, before) for x, before in pairs):
        return ""
    return (
        "All calls are right but for those that repeat the sizes of an earlier one, such as "
        f"'{pairs[0][0].label}'. If {KEPT}, this call is right when it is the first: try it."
    )


def _of_earlier(asked: Asked) -> str:
    """Is every wrong result that of an earlier call, which was right?"""
    right, told = [], ""
    for call in asked.calls:
        if not difference(call.expected, call.seen):
            right.append(call)
            continue
        same = (x for x in right if _telling(x.expected) and not difference(x.expected, call.seen))
        earlier = next((x for x in same if difference(x.expected, call.expected)), None)
        if earlier is None:
            return ""
        told = told or f"'{call.label}' gives that of '{earlier.label}'"
    if not told or len(right) < 2:
        return ""
    return (
        f"Every wrong result is the right one of an earlier call: {told}. Is something kept "
        "between calls, or an argument not used?"
    )


def _telling(result: object) -> bool:
    """Are these so many numbers, or so large ones, that they are no others by chance?"""
    if isinstance(result, int | float):
        return abs(result) > LARGE
    parts = result if isinstance(result, tuple) else (result,)
    return all(plain(x) and x.numel() > 3 and x.unique().numel() > 1 for x in parts)


def _alike(call: Wrong, before: Wrong) -> bool:
    """Have the tensors of two calls the same sizes? Whole numbers have none."""
    one, other = ([y.shape for y in x.case.args if isinstance(y, Tensor)] for x in (call, before))
    return bool(one) and one == other
