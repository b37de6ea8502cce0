"""What an exercise can tell of a wrong result that no known mistake explains: true of that result, no guess."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import ATOL, RTOL, difference, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.observe import Case, run
from attncourse.grading.symptoms import same, symptom

Look = Callable[[Case, Any, Any], str]


@dataclass(frozen=True)
class Noticing(Calls):
    """`Calls` that look at what is wrong where all else has nothing to say.

    Args:
        look: ``look(case, expected, seen)`` is one sentence about a wrong output, or ''. It sees only
            outputs whose shapes are right.
    """

    look: Look = lambda case, expected, seen: ""

    def notice(self, expected: dict, seen: dict, seed: int) -> str:
        """What can be said of all calls together, or else of the first that is wrong."""
        if says := symptom(expected, seen):
            return says
        for case in cases_of(self, seed):
            what = f"{case.label}, output"
            both = expected.get(what), seen.get(what)
            if shaped(*both) and difference(*both):
                says = run(self.look, case, *both)
                if says and isinstance(says, str):
                    return says
        return ""


def shaped(expected: Any, seen: Any) -> bool:
    """Are these tensors, or tuples of them, of the same shapes?"""
    if isinstance(expected, tuple):
        alike = isinstance(seen, tuple) and len(seen) == len(expected)
        return alike and all(map(shaped, expected, seen))
    return plain(expected) and plain(seen) and seen.shape == expected.shape


def apart(expected: Tensor, seen: Tensor) -> Tensor:
    """Where two tensors differ, as a check sees it."""
    return ~torch.isclose(
        seen.double().cpu(), expected.double(), rtol=RTOL, atol=ATOL, equal_nan=True
    )


def axes(names: str) -> Look:
    """Where all that is wrong stands, by the names of the axes; '' if that is everywhere."""

    def look(case: Case, expected: Tensor, seen: Tensor) -> str:
        wrong, found = apart(expected, seen), []
        for axis, name in enumerate(names.split()):
            bad = wrong.movedim(axis, 0).flatten(1).any(1)
            if not bad.all():
                found.append(f"{name} {', '.join(map(str, bad.nonzero().flatten().tolist()))}")
        says = f"In the first call that is wrong, all that is wrong stands at {'; '.join(found)}."
        return says if found else ""

    return look


def moved(name: str) -> Look:
    """Which number of the input stands where; for answers that only move numbers."""

    def look(case: Case, expected: Tensor, seen: Tensor) -> str:
        given = case.args[0]
        place = tuple(apart(expected, seen).nonzero()[0].tolist())
        asked, found = (
            (given.double() == x[place].double()).nonzero() for x in (expected, seen.cpu())
        )
        if not len(found):
            return f"There are numbers in the result that {name} does not hold; here, numbers only change places."  # fmt: skip
        return f"In the first call that is wrong, {list(place)} holds {name}{found[0].tolist()}; it should hold {name}{asked[0].tolist()}."  # fmt: skip

    return look


def weights_of(output: str, width: str = "head_dim", behind: str = "the values") -> Look:
    """For (output, weights): which of the two is wrong, and how the weights are.

    Args:
        output: what the first result is called.
        width: of the dot products, as the student calls it.
        behind: what lies behind the weights.
    """

    def look(case: Case, expected: tuple, seen: tuple) -> str:
        (right, true), (made, weights) = expected, (x.double().cpu() for x in seen)
        if same(true, weights):
            return f"The weights are right, so the fault lies behind them: {behind}."
        if same(right, made):
            return f"The {output} are right; only the returned weights are not."
        sums = weights.sum(-1)
        if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
            worst = sums.flatten()[(sums - 1).abs().argmax()].item()
            return f"The weights of a query sum to {worst:.4g}, not to 1."
        if says := _other_keys(true, weights):
            return says
        if factor := _sharper(true, weights):
            return f"The weights are those of scores {factor:.4g} times as large as they should be: look at the scale, 1 / sqrt({width})."  # fmt: skip
        return "The weights of each query sum to 1, but they are those of other scores: look at what comes before the softmax."  # fmt: skip

    return look


def _other_keys(true: Tensor, weights: Tensor) -> str:
    """A key that gets some weight and should get none, or the other way round."""
    for wrong, says in (
        ((true == 0) & (weights > 1e-4), "gives key {} some weight; it should give it none"),
        ((weights == 0) & (true > 1e-4), "gives key {} no weight; it should give it some"),
    ):
        if wrong.any():
            *_, query, key = wrong.nonzero()[0].tolist()
            return f"In the first call that is wrong, query {query} {says.format(key)}: look at the mask, or at what is masked."
    return ""


def _sharper(true: Tensor, weights: Tensor) -> float | None:
    """The one factor on all scores that makes these weights of the true ones."""
    visible = true > 0
    if not torch.equal(weights > 0, visible):
        return None
    a, b = (_centred(x, visible) for x in (true, weights))
    if not a.any():
        return None
    factor = float((a * b).sum() / a.square().sum())
    fits = torch.allclose(b, factor * a, rtol=1e-2, atol=1e-3)
    return factor if fits and abs(factor - 1) > 1e-3 else None


def _centred(weights: Tensor, visible: Tensor) -> Tensor:
    """The scores behind weights, of which each row has the mean 0; 0 where nothing is visible."""
    scores = torch.where(visible, weights, 1.0).log()
    mean = scores.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(visible, scores - mean, 0.0)
