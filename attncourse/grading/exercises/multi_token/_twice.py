"""Attention with a convolution before the softmax and one behind it, in steps, and its judge."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.multi_token._convolved import Convolved, as_it_is, filled
from attncourse.grading.exercises.multi_token._notices import numbers_like
from attncourse.grading.recipe import Recipe
from attncourse.grading.compare import same

BEHIND = Convolved(zero=as_it_is, hide=filled(0.0), normalize=as_it_is)


@dataclass(frozen=True)
class Twice:
    """A right answer in steps; `but` replaces some of them.

    Args:
        score: (query, key) -> scores.
        kernels: (kernel, kernel_after) -> the two of them.
        first: (scores, kernel) -> weights.
        second: (weights, kernel_after) -> weights.
        finish: weights -> those that are mixed and returned.
        mix: (weights, value) -> output.
        answer: (output, weights) -> what is returned.
    """

    score: Callable = lambda query, key: query @ key.mT * query.size(-1) ** -0.5
    kernels: Callable = lambda kernel, after: (kernel, after)
    first: Callable = Convolved()
    second: Callable = BEHIND
    finish: Callable = as_it_is
    mix: Callable = torch.matmul
    answer: Callable = lambda output, weights: (output, weights)
    but = Recipe.but

    def __call__(self, query, key, value, kernel, kernel_after):
        kernel, kernel_after = self.kernels(kernel, kernel_after)
        weights = self.first(self.score(query, key), kernel)
        weights = self.finish(self.second(weights, kernel_after))
        return self.answer(self.mix(weights, value), weights)


KEPT = 4  # tokens that the twins of a case share
TWINS = ("later queries", "later keys", "later values")  # what the cases behind the first change


class Leaks(Calls):
    """`Calls` whose cases begin with one and its twins: the same up to a token, and other tokens behind it."""

    def notice(self, expected, seen, seed: int) -> str:
        cases = cases_of(self, seed)[: 1 + len(TWINS)]
        pairs = [[x.get(f"{case.label}, output") for x in (expected, seen)] for case in cases]
        if not all(fits(*pair) for pair in pairs):
            return ""
        right, (output, weights) = pairs[0]
        if not (output.isfinite().all() and weights.isfinite().all()):
            return f"{cases[0].label}: there are numbers that are not finite."
        later = ((right[1] == 0) & (weights.abs() > 1e-6)).nonzero().tolist()
        if later:
            b, h, i, j = later[0]
            return f"A later key has weight: in sample {b} and head {h}, query {i} gives {weights[b, h, i, j].item():.3g} to key {j}."
        for what, (_, twin) in zip(TWINS, pairs[1:], strict=True):
            moved = [
                ~torch.isclose(x, y, rtol=1e-3, atol=1e-4)
                for x, y in zip((output, weights), twin, strict=True)
            ]
            rows = sorted({i for x in moved for i in x[:, :, :KEPT].nonzero()[:, 2].tolist()})
            if rows:
                return (
                    f"The first call and the one with other {what} agree up to token {KEPT - 1}, yet what comes out at "
                    f"{numbers(rows)} differs: there the {what[6:]} of the future are used."
                )
        if not torch.allclose(
            output, weights @ cases[0].args[2].to(weights.dtype), rtol=1e-3, atol=1e-4
        ):
            return "There is no leak, but the output is not the returned weights times the values."
        calls = [
            [x.get(f"{c.label}, output") for x in (expected, seen)] for c in cases_of(self, seed)
        ]
        return (
            one_factor(right[1], weights)
            or whereabouts(cases_of(self, seed), calls)
            or begins(right[1], weights)
        )


def begins(right, weights) -> str:
    """The first row that is wrong, where nothing else is known."""
    rows = (~torch.isclose(weights.double(), right, rtol=1e-3, atol=1e-4)).nonzero()[:, 2].tolist()
    return (
        f"There is no leak, and the first row of weights that is wrong is row {min(rows)}."
        if rows
        else ""
    )


def one_factor(right, weights) -> str:
    """Are the rows right, each but for a factor?"""
    factor = (right * weights).sum(-1, keepdim=True) / right.square().sum(-1, keepdim=True)
    if not torch.allclose(weights.double(), factor * right, rtol=1e-3, atol=1e-4):
        return ""
    off = (factor - 1).abs().gt(1e-3).nonzero().tolist()
    if not off:
        return ""
    b, h, i, _ = off[0]
    return f"There is no leak, and every row of weights is right but for a factor: {factor[b, h, i, 0].item():.3g} in row {i}."


def whereabouts(cases, calls) -> str:
    """Before the softmax or behind it? Told by the two calls in which one of the convolutions changes nothing."""
    good = {
        c.label: same(*call)
        for c, call in zip(cases, calls, strict=True)
        if "changes nothing" in c.label
    }
    first, second = good.values()
    if first == second:
        return ""
    return (
        f"There is no leak. With {list(good)[second]} the result is right: look first at what comes "
        f"{'behind' if first else 'before'} the softmax."
    )


def numbers(rows: list[int]) -> str:
    """The tokens of these rows, in words."""
    return f"token {rows[0]}" if len(rows) == 1 else f"tokens {', '.join(map(str, rows))}"


def fits(right, got) -> bool:
    """Are these two results of the right shapes?"""
    pairs = isinstance(got, tuple) and len(got) == 2
    return pairs and all(map(numbers_like, right, got))


RIGHT = Twice()
