"""Attention in steps, for answers that are wrong on purpose: a mistake replaces one step.

    RIGHT = Recipe(lambda query, key, value: Given(query, key, value))
    RIGHT.but("The scores are not divided by sqrt(head_dim).", scale=lambda x: 1.0)

The steps are those of `attncourse.steps`, written again: nothing is shared with what is judged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.grading.dataflow import Value
from attncourse.grading.mistake import Mistake


class Given(NamedTuple):
    """What attention works on, made of the arguments of an answer.

    Args:
        query, key, value: (batch, heads, seq, width), axes of size 1 broadcast.
        visible: a bool mask (True = may attend), the diagonal of a causal mask as in
            ``torch.tril``, or ``None``: everything is visible.
        head_dim: the scale is the inverse of its square root; ``None``: the width of the query.
        rest: what the last step needs as well, such as an output matrix.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Any = None
    head_dim: int | None = None
    rest: Any = None

    @property
    def width(self) -> int:
        return self.query.size(-1) if self.head_dim is None else self.head_dim


def dot(x: Given) -> Tensor:
    """The scores, unscaled."""
    return x.query @ x.key.mT


def triangle(n: int, m: int, diagonal: int) -> Tensor:
    """Query i may read keys 0 to i + diagonal."""
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


def hide(scores: Tensor, x: Given, fill: float = -math.inf) -> Tensor:
    """The scores, with ``fill`` where a key is hidden."""
    return scores if x.visible is None else scores.masked_fill(~x.visible, fill)


@dataclass(frozen=True)
class Recipe:
    """A right answer in steps; `but` is the same with some of them replaced: a known mistake.

        given -> score -> scale -> rule, mask -> normalize -> finish -> mix -> answer

    Args:
        given: the answer's arguments -> `Given`.
        score: `Given` -> scores.
        scale: `Given` -> the factor on the scores.
        rule: (n, m, diagonal) -> the causal mask, where ``visible`` is a diagonal.
        mask: (scores, `Given`) -> scores.
        normalize: scores -> weights.
        finish: (weights, `Given`) -> the weights that are mixed and returned.
        mix: (weights, `Given`) -> output.
        answer: (output, weights, scores, `Given`) -> what the exercise asks for.
    """

    given: Callable[..., Given]
    score: Callable = dot
    scale: Callable = lambda x: x.width**-0.5
    rule: Callable = triangle
    mask: Callable = hide
    normalize: Callable = lambda scores: scores.softmax(-1)
    finish: Callable = lambda weights, x: weights
    mix: Callable = lambda weights, x: weights @ x.value
    answer: Callable = lambda output, weights, scores, x: (output, weights)

    def __call__(self, *arguments, **named):
        x = self.given(*arguments, **named)
        scores = self.score(x) * self.scale(x)
        if isinstance(x.visible, int):
            x = x._replace(visible=self.rule(*scores.shape[-2:], x.visible))
        scores = self.mask(scores, x)
        weights = self.finish(self.normalize(scores), x)
        return self.answer(self.mix(weights, x), weights, scores, x)

    def values(self, *arguments: Any, **named: Any) -> list[Value]:
        """The named values of one call, in the order in which they are made."""
        kept: list[Value] = []

        def keep(called: str, number: Any) -> Any:
            kept.append(Value(called, number))
            return number

        def scores(x: Given) -> Tensor:
            return keep("the products of queries and keys", self.score(x))

        def masked(made: Tensor, x: Given) -> Tensor:
            return self.mask(keep("the scaled scores", made), x)

        def finish(weights: Tensor, x: Given) -> Tensor:
            return keep("the weights", self.finish(weights, x))

        def mix(weights: Tensor, x: Given) -> Tensor:
            return keep("the weighted sums of the values", self.mix(weights, x))

        replace(self, score=scores, mask=masked, finish=finish, mix=mix)(*arguments, **named)
        return kept

    def but(self, says: str, **steps: Any) -> Mistake:
        """The mistake that replaces these steps, with the sentence that a student reads."""
        return Mistake(says, replace(self, **steps))
