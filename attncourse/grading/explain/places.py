"""Which calls, which results and which places are wrong, and which are right?"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.grading import axes
from attncourse.grading.axes import words
from attncourse.grading.compare import ATOL, RTOL, difference, same
from attncourse.grading.explain.asked import Asked, Wrong, axis_names, labels
from attncourse.grading.explain.factors import one_factor
from attncourse.grading.explain.steps import missing_step
from attncourse.grading.explain.which import which_calls


def _by_result(asked: Asked) -> list[list[Wrong]]:
    """The calls in which each result is wrong; [] unless all calls give as many as they should."""
    both = [x for call in asked.calls for x in (call.expected, call.seen)]
    if len({len(x) if isinstance(x, tuple) else None for x in both}) != 1:
        return []
    several = range(len(both[0])) if isinstance(both[0], tuple) else ()
    return [[x for x in asked.calls if difference(x.expected[k], x.seen[k])] for k in several]


def wrong_results(asked: Asked) -> str:
    """Which of several results are right in all calls, and in which calls the others are wrong."""
    calls, wrong = asked.calls, _by_result(asked)
    names = asked.exercise.results or [f"result {k + 1}" for k in range(len(wrong))]
    factors = [one_factor([(x.expected[k], x.seen[k]) for x in of]) for k, of in enumerate(wrong)]
    each = list(zip(names, wrong, factors, strict=True)) if wrong else []
    right = [name for name, of, _ in each if not of]
    everywhere = all(len(of) == len(calls) for of in wrong)
    if len(right) == len(wrong) or not right and everywhere and not any(factors):
        return ""
    good = f"Right in all calls: {' and '.join(right)}. " if right else ""
    bad = [_how_wrong(name, of, calls, factor) for name, of, factor in each if of]
    return f"{good}Not right: {'; '.join(bad)}."


def some_right(asked: Asked) -> str:
    """Which of several results are right in all calls, and which step of the others is not made."""
    right = [k for k, of in enumerate(_by_result(asked)) if not of]
    if 2 * len(asked.wrong) <= len(asked.calls) or not right:
        return ""
    return f"{wrong_results(asked)} {missing_step(asked, right)}".strip()


def by_calls(asked: Asked) -> str:
    """Which property all wrong calls have; then which results are right, or which step is made."""
    if not (says := which_calls(asked)):
        return ""
    return f"{says} {some_right(asked) or missing_step(asked)}".strip()


def _how_wrong(name: str, wrong: list, calls: list, factor: float | None) -> str:
    few = f"in {len(wrong)} of {len(calls)} calls, the first is '{wrong[0].label}'"
    where = "in all calls" if len(wrong) == len(calls) else few
    return f"{name} {where}{f', {factor:.4g} times the right numbers' if factor else ''}"


def only_call(asked: Asked) -> str:
    """A few calls of many are wrong, and no other is off by a little."""
    wrong, right = asked.wrong, len(asked.calls) - len(asked.wrong)
    far = not any(same(x.expected, x.seen) for x in wrong)
    if 1 <= len(wrong) <= 3 and right >= 2 and far:
        which = "this one does" if len(wrong) == 1 else f"these {len(wrong)} do"
        return f"All other calls give what they should; only {which} not: {labels(wrong)}."
    return ""


def calls_by(
    *kinds: tuple[str, Callable[[int, int], bool]], order: Sequence[str] = ()
) -> Callable[[Asked], str]:
    """An explainer that sorts the wrong calls of a function that returns whole numbers.

    Args:
        kinds: sentences that end before the calls, and ``of(expected, seen)``.
        order: the labels of all calls; the last ones tell most.
    """

    def explainer(asked: Asked) -> str:
        wrong = sorted(asked.wrong, key=lambda x: order.index(x.label) if order else 0)
        if any(type(x.seen) is not int for x in wrong):
            return ""
        if len(wrong) > 6 and len({x.seen - x.expected for x in wrong}) == 1:
            return ""  # that is one term too many, everywhere
        says = []
        for how, of in kinds:
            *others, last = [x.label for x in wrong if of(x.expected, x.seen)] or [""]
            more = f"; and {len(others) - 2} more" * (len(others) > 2)
            says += [f"{how}: {'; '.join([*others[-2:], last])}{more}."] * bool(last)
        return " ".join(says)

    return explainer


def wrong_places(asked: Asked) -> str:
    """Where all that is wrong stands, by the names of the axes; '' if that is everywhere."""
    for call, number, right, seen in asked.results:
        if difference(right, seen):
            wrong, letters = apart(right, seen), axis_names(asked, right, number)
            places = axes.apart(wrong, letters)
            stands = _band(wrong, letters) or f"at {places}" * bool(places)
            where = f"In the call '{call.label}' all that is wrong stands {stands}"
            return f"{where}; the rest is right within {RTOL:g}." if stands else ""
    return ""


def _band(wrong: Tensor, letters: list[str]) -> str:
    """Where in a square table all that is wrong stands: on, above or below its diagonal."""
    if wrong.dim() < 2 or len(letters[-1]) > 1 or min(wrong.shape[-2:]) < 2:
        return ""
    *_, n, m = wrong.shape
    i, j = torch.arange(n)[:, None], torch.arange(m)
    row, column = (words(letter)[0] for letter in letters[-2:])
    for where, how in ((i == j, "equal to"), (j > i, "larger than"), (j < i, "smaller than")):
        if where.any() and not wrong[..., ~where].any():
            return f"where the number of the {column} is {how} that of the {row}"
    return ""


def apart(right: Tensor, seen: Tensor) -> Tensor:
    """Where two tensors differ, as a check sees them."""
    close = torch.isclose(seen.double().cpu(), right.double(), rtol=RTOL, atol=ATOL, equal_nan=True)
    return ~close


def moved(name: str) -> Callable[[Asked], str]:
    """An explainer for answers that only move the numbers of an argument: which stands where?

    Args:
        name: of that argument.
    """

    def explainer(asked: Asked) -> str:
        call = next(iter(asked.shaped), None)
        if call is None or call.case is None:
            return ""
        given, seen = call.case.args[0].double(), call.seen.double().cpu()
        place = tuple(apart(call.expected, call.seen).nonzero()[0].tolist())
        right = (given == call.expected[place].double()).nonzero()[0].tolist()
        there = (given == seen[place]).nonzero()
        if not len(there):
            return (
                f"There are numbers in the result that {name} does not hold; here, numbers only "
                "change places."
            )
        return (
            f"In the call '{call.label}', {list(place)} holds {name}{there[0].tolist()}; it should "
            f"hold {name}{right}."
        )

    return explainer
