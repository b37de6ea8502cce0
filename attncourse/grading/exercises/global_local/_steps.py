"""Right answers in steps, of which a mistake replaces some: the mask, the plan and the number of pairs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.recipe import Recipe


@dataclass(frozen=True)
class Rules:
    """A right answer in steps; `but` replaces some of them."""

    near: Callable = lambda i, j, left, right: (i - left <= j) & (j <= i + right)
    marks: Callable = lambda marks: marks
    hub: Callable = torch.logical_or
    join: Callable = torch.logical_or
    real: Callable = lambda i, j, length: (i < length) & (j < length)
    past: Callable = lambda i, j: j <= i
    finish: Callable = lambda mask: mask
    but = Recipe.but

    def __call__(self, is_global, lengths, left, right, causal):
        i, j = torch.arange(is_global.size(1))[:, None], torch.arange(is_global.size(1))
        marks = self.marks(is_global)[:, None]
        near = self.near(i, j, left, right)
        mask = self.join(near, self.hub(marks[..., None], marks[:, :, None]))
        mask = mask & self.real(i, j, lengths[:, None, None, None])
        return self.finish(mask & self.past(i, j) if causal else mask)


def largest(draws: Tensor, num_random: int) -> Tensor:
    """True at the largest draws of each row."""
    best = draws.topk(min(num_random, draws.size(-1)), dim=-1).indices
    return torch.zeros(draws.shape, dtype=torch.bool).scatter(-1, best, True)


def left_over(draws: Tensor, fixed: Tensor) -> Tensor:
    """What is read anyway is never among the largest."""
    return draws.masked_fill(fixed, -math.inf)


@dataclass(frozen=True)
class Plan:
    """A right answer in steps; `but` replaces some of them."""

    draw: Callable = lambda draws: draws
    near: Callable = lambda i, j: (i - j).abs() <= 1
    keys: Callable = lambda j, last: (j == 0) | (j == last)
    queries: Callable = lambda i, last: (i == 0) | (i == last)
    left: Callable = left_over
    pick: Callable = largest
    finish: Callable = lambda plan: plan
    but = Recipe.but

    def __call__(self, draws, num_random):
        own, blocks = self.draw(draws), draws.size(-1)
        i, j = torch.arange(blocks)[:, None], torch.arange(blocks)
        fixed = self.near(i, j) | self.keys(j, blocks - 1) | self.queries(i, blocks - 1)
        return self.finish(fixed | self.pick(self.left(own, fixed), num_random))


def edge(n: int, side: int) -> int:
    """Pairs that a window lacks at one end of the sequence."""
    return (d := max(min(side, n - 1), 0)) * (d + 1) // 2


def band(n: int, left: int, right: int) -> int:
    """Pairs of a window alone: what lies beyond the ends of the sequence is not there."""
    return n + sum(min(side, n - 1) * n - edge(n, side) for side in (left, right) if n)


def uncut(n: int, left: int, right: int) -> int:
    """Pairs of n whole windows, as if a sequence had no ends."""
    return n * (left + 1 + right)


def near_to_global(n: int, side: int, num_global: int) -> int:
    """Pairs at most ``side`` apart, of a global token and a later one that is not global."""
    return sum(
        min(d, num_global, n - num_global, max(n - d, 0)) for d in range(1, min(side, n) + 1)
    )


@dataclass(frozen=True)
class Pairs:
    """A right answer in steps: all pairs with a global token, and a window over the other tokens."""

    rest: Callable = lambda n, k: n - k
    window: Callable = band
    hub: Callable = lambda n, k: n * n - (n - k) ** 2
    finish: Callable = lambda total, n: total
    but = Recipe.but

    def __call__(self, n, left, right, num_global):
        window = self.window(self.rest(n, num_global), left, right)
        return self.finish(self.hub(n, num_global) + window, n)
