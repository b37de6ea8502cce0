"""Scores that are a sum of terms, some of them switched off, in steps, and the factors that an answer puts on them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.disentangled._rows import in_words
from attncourse.grading.recipe import Recipe

NAMES = ("c2c", "c2p", "p2c")


def there(terms) -> list[Tensor]:
    """The terms that are not switched off."""
    return [term for term in terms if term is not None]


@dataclass(frozen=True)
class Terms:
    """A right answer in steps; `but` replaces some of them.

    Args:
        count: the three terms -> how many are there.
        scale: (head_dim, how many) -> the factor on the sum.
        join: (the three terms, factor) -> scores.
        normalize: scores -> weights.
        finish: (weights, the three terms) -> what is returned.
    """

    count: Callable = lambda terms: len(there(terms))
    scale: Callable = lambda d, count: (d * count) ** -0.5
    join: Callable = lambda terms, factor: sum(there(terms)) * factor
    normalize: Callable = lambda scores: scores.softmax(-1)
    finish: Callable = lambda weights, terms: weights
    but = Recipe.but

    def __call__(self, c2c, c2p, p2c, head_dim):
        terms = c2c, c2p, p2c
        factor = self.scale(head_dim, self.count(terms))
        return self.finish(self.normalize(self.join(terms, factor)), terms)


def only(*kept):
    """The sum of some of the terms, of those that are there."""
    return lambda terms, factor: (
        factor * sum(there([terms[k] for k in kept]), start=0 * there(terms)[0])
    )


def weighted(change):
    """The terms, each with a factor of its own: ``change(number, factor, how many)``."""

    def join(terms, factor):
        on = there(terms)
        return sum(change(k, factor, len(on)) * x for k, x in enumerate(terms) if x is not None)

    return {"join": join}


def each_alone(together):
    """A softmax for each term, and what is made of them."""
    return {"join": lambda terms, factor: together([(x * factor).softmax(-1) for x in there(terms)]),
            "normalize": lambda weights: weights}  # fmt: skip


def added_in_place(terms, factor):
    """The sum, made in the first term."""
    first, *others = there(terms)
    for x in others:
        first.data.add_(x.data)
    return first * factor


class Factors(Calls):
    """`Calls` that reads from the weights by what each term was multiplied."""

    def notice(self, expected, seen, seed: int) -> str:
        raised, wrong = [], []
        for case in cases_of(self, seed):
            what = f"{case.label}, output"
            right, got = expected[what], seen.get(what)
            if isinstance(got, Raised):
                raised.append(case)
            elif difference(right, got):
                wrong.append((case, got, right))
                if plain(got) and got.shape != right.shape:
                    axes = dict(zip(("batch", "heads", "n", "m"), right.shape, strict=True))
                    return in_words(got.shape, axes, {"head_dim": case.args[3]})
        off = [case for case in cases_of(self, seed) if None in case.args[:3]]
        if raised and not wrong and all(case in off for case in raised):
            return "It fails where a term is switched off: that term is None, which cannot be added. Leave it out of the sum."
        for case, got, right in wrong:
            if plain(got) and got.shape == right.shape and (says := self._told(case, got.double())):
                return f"{case.label}: {says}"
        return ""

    def _told(self, case, got: Tensor) -> str:
        return self._factors(case, got) or sums(got)

    def _factors(self, case, got: Tensor) -> str:
        *terms, d = case.args
        if not (got > 1e-9).all() or got.size(-1) < 2:
            return ""
        given = {name: x for name, x in zip(NAMES, terms, strict=True) if x is not None}
        found = factors(got, list(given.values()))
        if found is None:
            return ""
        if max(abs(x * math.sqrt(d * len(given)) - 1) for x in found) < 1e-3:
            return f"the scores are right, but {sums(got)}" if sums(got) else ""
        should = 1 / math.sqrt(d * len(given))
        each = ", ".join(f"{name} by {x:.4g}" for name, x in zip(given, found, strict=True))
        return (
            f"your scores multiply {each}. With {len(given)} term{'s' * (len(given) > 1)} and head_dim {d} the factor is "
            f"1 / sqrt({d * len(given)}) = {should:.4g} for each that is there."
        )


def sums(got: Tensor) -> str:
    """What the weights of a query add up to, where it is not 1."""
    total = got.sum(-1).flatten()
    away = (total - 1).abs()
    return (
        f"the weights of a query add up to {round(float(total[away.argmax()]), 4) + 0.0:.4g}; to 1, over the keys."
        if away.max() > 1e-3
        else ""
    )


def factors(weights: Tensor, terms: list[Tensor]) -> list[float] | None:
    """The factors on these terms that explain the weights, or ``None``: logarithms of weights are scores but for a constant."""

    def apart(x):
        return (x.double() - x.double().mean(-1, keepdim=True)).flatten()

    wanted, columns = apart(weights.log()), torch.stack([apart(x) for x in terms], -1)
    found = torch.linalg.lstsq(columns, wanted[:, None]).solution[:, 0]
    if columns.abs().amax(0).min() < 1e-6:
        return None  # a term that says nothing
    near = torch.allclose(columns @ found, wanted, atol=1e-3)
    return [round(x, 6) + 0.0 for x in found.tolist()] if near else None
