"""The online softmax in steps, for answers that are wrong on purpose, and the mistakes that everybody makes in it."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.exercise import Mistake
from attncourse.grading.recipe import Recipe


@dataclass(frozen=True)
class Online:
    """What is known of each row, (maximum, sum, accumulator), block by block; `but` replaces steps of it."""

    start: float = -math.inf
    largest: Callable = lambda old, scores: torch.maximum(old, scores.amax(-1))
    shift: Callable = lambda new: new.masked_fill(new == -math.inf, 0.0)
    weigh: Callable = lambda scores, shift, old: torch.exp(scores - shift[..., None])
    rescale: Callable = lambda old, shift: torch.exp(old - shift)
    total: Callable = lambda total, factor, weights: factor * total + weights.sum(-1)
    mix: Callable = lambda weights, value, scores: weights @ value
    add: Callable = lambda mixed, factor, new, total: factor[..., None] * mixed + new
    divide: Callable = lambda mixed, total: mixed / total.masked_fill(total == 0, 1.0)[..., None]
    but = Recipe.but

    def step(self, state: tuple, scores: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take some more keys into account."""
        maximum, total, mixed = state
        new = self.largest(maximum, scores)
        shift = self.shift(new)
        weights, factor = self.weigh(scores, shift, maximum), self.rescale(maximum, shift)
        total = self.total(total, factor, weights)
        return new, total, self.add(mixed, factor, self.mix(weights, value, scores), total)

    def states(self, blocks: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple]:
        """What is known before the first block of scores and values, and after each."""
        state = None
        for scores, value in blocks:
            if state is None:
                nothing = torch.zeros(scores.shape[:-1])
                state = nothing + self.start, nothing, torch.zeros(*nothing.shape, value.size(-1))
                yield state
            state = self.step(state, scores, value)
            yield state


OLD_ONES = "what is old shrinks by exp(old maximum - new maximum)"
# What people do to what was added up under an old maximum, and how they find the new one.
RESCALINGS = (
    ("The accumulator is not rescaled; it was added up under the old maximum.", {"add": lambda o, f, new, t: o + new}),
    ("The sum is not rescaled; it was added up under the old maximum.", {"total": lambda t, f, w: t + w.sum(-1)}),
    ("Neither the sum nor the accumulator is rescaled, or the old maximum is overwritten before the factor is taken.",
     {"rescale": lambda old, shift: torch.ones_like(old)}),
    (f"The factor is upside down: {OLD_ONES}.",
     {"rescale": lambda old, shift: torch.where(old == -math.inf, 0.0, torch.exp(shift - old))}),
    (f"The factor is upside down: {OLD_ONES}.", {"rescale": lambda old, shift: torch.exp(shift - old)}),
    (f"The factor is exp(old maximum); {OLD_ONES}.", {"rescale": lambda old, shift: old.exp()}),
    (f"The factor is exp(-new maximum); {OLD_ONES}.", {"rescale": lambda old, shift: torch.exp(-shift)}),
    (f"The factor has no exponential; {OLD_ONES}.",
     {"rescale": lambda old, shift: torch.where(old == -math.inf, 0.0, old - shift)}),
    ("The sum of the new block is rescaled; it is the older sum that has to shrink.", {"total": lambda t, f, w: t + f * w.sum(-1)}),
    ("The new block is rescaled before it joins the accumulator; it is the older ones that have to shrink.",
     {"add": lambda o, f, new, t: o + f[..., None] * new}),
    ("The new block is rescaled with the older ones; only what was added up before has to shrink.",
     {"add": lambda o, f, new, t: f[..., None] * (o + new)}),
    ("The accumulator is rescaled twice.", {"add": lambda o, f, new, t: f[..., None].square() * o + new}),
    ("The old sum is forgotten; it is rescaled and kept.", {"total": lambda t, f, w: w.sum(-1)}),
    ("The old accumulator is forgotten; it is rescaled and kept.", {"add": lambda o, f, new, t: new}),
    ("The sum adds the mean of the new exponentials; add all of them up.", {"total": lambda t, f, w: f * t + w.mean(-1)}),
    ("The exponentials of a block are divided by their own sum; that division waits until the end.",
     {"weigh": lambda s, shift, old: s.softmax(-1).nan_to_num(0.0)}),
    ("The exponentials of a block are divided by their own sum; that division waits until the end.",
     {"weigh": lambda s, shift, old: s.softmax(-1)}),
    ("The weights that mix the values of a block are divided by their own sum; that division waits until the end.",
     {"mix": lambda weights, value, scores: scores.softmax(-1).nan_to_num(0.0) @ value}),
    ("The weights that mix the values of a block are divided by the sum so far; that division waits until the end.",
     {"add": lambda o, f, new, t: f[..., None] * o + new / t[..., None]}),
    ("Powers of 2 are taken; the softmax is made of powers of e.", {"weigh": lambda s, shift, old: torch.exp2(s - shift[..., None])}),
    ("Powers of 2 are taken; the softmax is made of powers of e.", {"weigh": lambda s, shift, old: torch.exp2(s - shift[..., None]),
                                                    "rescale": lambda old, shift: torch.exp2(old - shift)}),
    ("The accumulator is divided by the sum in every step; that division waits until the end.",
     {"add": lambda o, f, new, t: (f[..., None] * o + new) / t[..., None]}),
    ("The accumulator is divided by the sum in every step; that division waits until the end.",
     {"add": lambda o, f, new, t: ((f[..., None] * o + new) / t[..., None]).nan_to_num(0.0)}),
    ("The sum adds the exponentials of all rows; each row has its own.", {"total": lambda t, f, w: f * t + w.sum()}),
    ("The values are added up without their weights.",
     {"mix": lambda weights, value, scores: value.sum(-2, keepdim=True).expand(*weights.shape[:-1], -1)}),
    ("The maximum is that of the new block alone; an older one can be larger.", {"largest": lambda old, s: s.amax(-1)}),
    ("The maximum stays that of the first block; a later one can be larger.",
     {"largest": lambda old, s: torch.where(old == -math.inf, s.amax(-1), old)}),
    ("The largest score of all rows is taken; each row has its own.",
     {"largest": lambda old, s: torch.maximum(old, s.amax(-1)).amax().expand_as(old)}),
    ("The largest score of all rows is taken; each row has its own.",
     {"largest": lambda old, s: torch.maximum(old, s.amax())}),
    ("The largest score of all rows is taken; each row has its own.",
     {"largest": lambda old, s: torch.maximum(old, s.amax((-2, -1))[..., None])}),
    ("No maximum is subtracted from the scores, so exp overflows on large ones.", {"weigh": lambda s, shift, old: s.exp()}),
    ("The new exponentials subtract the old maximum; both old and new ones are measured against the new one.",
     {"weigh": lambda s, shift, old: torch.exp(s - old.masked_fill(old == -math.inf, 0.0)[..., None])}),
    ("The new exponentials subtract the maximum of their own block; an older one can be larger.",
     {"weigh": lambda s, shift, old: torch.exp(s - s.amax(-1).nan_to_num(neginf=0.0)[..., None])}),
    ("exp(score) is divided by exp(maximum), which overflows on large scores; subtract before you take exp.",
     {"weigh": lambda s, shift, old: s.exp() / shift.exp()[..., None],
      "rescale": lambda old, shift: old.exp() / shift.exp()}),
    ("The maximum is added to the scores; subtract it.", {"weigh": lambda s, shift, old: torch.exp(s + shift[..., None])}),
)  # fmt: skip


def rescalings(right: Online) -> list[Mistake]:
    """The mistakes that everybody makes in the online softmax; the first three are the most frequent."""
    return [right.but(says, **steps) for says, steps in RESCALINGS]
