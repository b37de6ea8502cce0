"""Attention that subtracts one map of a pair of heads from the other, in steps, and what can be read off a wrong one."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.recipe import Recipe
from attncourse.grading.compare import same


def neighbours(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Heads 2 p and 2 p + 1 are a pair."""
    return maps[:, ::2], maps[:, 1::2]


def halves(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Head p and head p + h are a pair, as in some implementations."""
    return tuple(maps.chunk(2, dim=1))


@dataclass(frozen=True)
class Subtracted(Recipe):
    """`Recipe` with two more steps behind the softmax; ``rest`` of what is given is lam.

    Args:
        pair: maps of all heads -> (first, second) of each pair.
        subtract: (first, second, lam) -> weights.
    """

    pair: Callable = neighbours
    subtract: Callable = lambda first, second, lam: first - lam * second

    def __call__(self, *arguments):
        x = self.given(*arguments)
        scores = self.mask(self.score(x) * self.scale(x), x)
        weights = self.subtract(*self.pair(self.normalize(scores)), x.rest)
        weights = self.finish(weights, x)
        return self.answer(self.mix(weights, x), weights, scores, x)


def total(weights: Tensor) -> Tensor:
    """The sum of each row, whose axis stays."""
    return weights.sum(-1, keepdim=True)


class Maps(Calls):
    """`Calls` for (output, weights), which sees what the weights of a pair give away."""

    def notice(self, expected, seen, seed: int) -> str:
        calls = []
        for case in cases_of(self, seed):
            right, got = (x.get(f"{case.label}, output") for x in (expected, seen))
            if not (isinstance(got, tuple) and len(got) == 2 and all(map(plain, got))):
                return ""
            if any(a.shape != b.shape for a, b in zip(right, got, strict=True)):
                return ""
            calls.append((case, right, tuple(x.double() for x in got)))
        for tells in (hidden, row_sums, first_map, lam_moves, remade, shared):
            if says := tells(calls):
                return says
        return ""


def hidden(calls) -> str:
    """What `visible` hides must have weight 0."""
    for case, _, (_, weights) in calls:
        wrong = ~case.args[4] & (weights.abs() > 1e-6)
        if wrong.any() and weights.isfinite().all():
            return f"{case.label}: at {wrong.nonzero()[0].tolist()} a hidden key has weight."
    return ""


def first_map(calls) -> str:
    """With lam = 0 nothing is subtracted, so that all but the first maps of the pairs is out of the game."""
    case, right, got = next(call for call in calls if not call[0].args[3])
    if same(right[1], got[1]):
        return ""
    return (
        f"{case.label}: the weights should be those of heads 0, 2, 4 ..., since nothing is subtracted. They are not, so look "
        "at one map alone first: scores, scale, mask, softmax, and which heads belong together."
    )


def row_sums(calls) -> str:
    """Every row must sum to 1 - lam."""
    for case, _, (_, weights) in calls:
        lam = case.args[3].item()
        wrong = ((weights.sum(-1) - (1 - lam)).abs() > 1e-3).nonzero()
        if len(wrong) and weights.isfinite().all():
            found = weights.sum(-1)[tuple(wrong[0])].item()
            return (
                f"{case.label}: each map's rows sum to 1, so rows of their difference sum to 1 - lam = {1 - lam:.3g}. "
                f"Row {wrong[0].tolist()} of the weights sums to {found:.3g}."
            )
    return ""


def lam_moves(calls) -> str:
    """Sums are right and the weights are not: what is subtracted is of the right size, but not the right map."""
    wrong = [case for case, right, got in calls if not same(right[1], got[1])]
    if wrong and all(case.args[3] for case in wrong):
        return (
            "The first maps are right, and as much is subtracted as should be; but what is subtracted is not lam times "
            "the map of the second head of the same pair, heads 1, 3, 5 ..."
        )
    return ""


def remade(calls) -> str:
    """Weights and output must belong together."""
    if all(same(right[1], got[1]) for _, right, got in calls) and not all(
        same(right[0], got[0]) for _, right, got in calls
    ):
        return "The weights are right, but the output is not weights @ value, pair by pair."
    return ""


def shared(calls) -> str:
    """What the wrong calls have in common and the right ones do not have."""
    wrong = [not same(right, got) for _, right, got in calls]
    for says, has in (
        ("with several pairs", lambda q, k, v, lam, visible: v.size(1) > 1),
        ("with several samples", lambda q, k, v, lam, visible: len(q) > 1),
        ("with hidden keys", lambda q, k, v, lam, visible: not visible.all()),
        ("in which keys are hidden and lam is below 0", lambda q, k, v, lam, visible: lam < 0),
        ("with lam above 1", lambda q, k, v, lam, visible: lam > 1),
        ("with large scores", lambda q, k, v, lam, visible: q.abs().max() > 50),
    ):  # fmt: skip
        if any(wrong) and [bool(has(*case.args)) for case, *_ in calls] == wrong:
            return f"Wrong are the calls {says}, and only these."
    return ""
