"""Which calls, which results and which places are wrong, and which are right?"""

import torch
from torch import Tensor

from attncourse.grading.axes import words
from attncourse.grading.compare import ATOL, RTOL, difference, plain, same
from attncourse.grading.explain.asked import Asked, axis_names, labels, tensors

ONLY_LOUD = (
    "Ordinary scores give the right result, large ones do not. Something depends on their size: an "
    "exponential without the largest score of the row subtracted, a clamp, a small number that is "
    "added, or a low precision."
)


def only_loud(asked: Asked) -> str:
    """Only calls with large scores are wrong, which say so in their labels."""
    loud = asked.wrong and all("scores" in x.label for x in asked.wrong)
    return ONLY_LOUD if loud and len(asked.wrong) < len(asked.calls) else ""


def wrong_results(asked: Asked) -> str:
    """Which of several results are right in all calls, and in which calls the others are wrong."""
    calls = asked.calls
    several = [x for x in calls if isinstance(x.expected, tuple)]
    if not several or len(several) != len(calls):
        return ""
    count = len(calls[0].expected)
    if not all(
        isinstance(x.seen, tuple) and len(x.seen) == len(x.expected) == count for x in calls
    ):
        return ""
    names = asked.exercise.results or [f"result {k + 1}" for k in range(count)]
    wrong = {
        name: [x for x in calls if difference(x.expected[k], x.seen[k])]
        for k, name in enumerate(names)
    }
    right = [name for name, of in wrong.items() if not of]
    if not right and all(len(of) == len(calls) for of in wrong.values()):
        return ""
    good = f"Right in all calls: {' and '.join(right)}. " if right else ""
    bad = "; ".join(f"{name} {_how_often(of, calls)}" for name, of in wrong.items() if of)
    return f"{good}Not right: {bad}."


def _how_often(wrong: list, calls: list) -> str:
    few = f"in {len(wrong)} of {len(calls)} calls, the first is '{wrong[0].label}'"
    return "in all calls" if len(wrong) == len(calls) else few


def only_call(asked: Asked) -> str:
    """A few calls of many are wrong, and no other is off by a little."""
    wrong, right = asked.wrong, len(asked.calls) - len(asked.wrong)
    if (
        wrong
        and 1 <= len(wrong) <= 3
        and right >= 2
        and not any(same(x.expected, x.seen) for x in wrong)
    ):
        which = "this one does" if len(wrong) == 1 else f"these {len(wrong)} do"
        return f"All other calls give what they should; only {which} not: {labels(wrong)}."
    return ""


def wrong_places(asked: Asked) -> str:
    """Where all that is wrong stands, by the names of the axes; '' if that is everywhere."""
    for call in asked.shaped:
        for number, (right, seen) in enumerate(tensors(call.expected, call.seen)):
            if plain(right) and difference(right, seen):
                return _stands(asked, call.label, right, seen, number)
    return ""


def _stands(asked: Asked, label: str, right: Tensor, seen: Tensor, number: int) -> str:
    wrong, found = apart(right, seen), []
    for axis, letter in enumerate(axis_names(asked, right, number)):
        bad = wrong.movedim(axis, 0).flatten(1).any(1)
        if not bad.all():
            at = bad.nonzero().flatten().tolist()
            some = ", ".join(map(str, at[:6])) + (" ..." if len(at) > 6 else "")
            found.append(f"{words(letter)[len(at) > 1] if len(letter) == 1 else letter} {some}")
    where = f"In the call '{label}' all that is wrong stands at {'; '.join(found)}"
    return f"{where}; the rest is right." if found else ""


def apart(right: Tensor, seen: Tensor) -> Tensor:
    """Where two tensors differ, as a check sees them."""
    close = torch.isclose(seen.double().cpu(), right.double(), rtol=RTOL, atol=ATOL, equal_nan=True)
    return ~close
