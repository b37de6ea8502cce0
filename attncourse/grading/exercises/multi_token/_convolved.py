"""A table of scores under a sliding kernel, in steps, so that a mistake replaces one of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.recipe import Recipe, triangle


def future(n: int, m: int) -> Tensor:
    """Which keys come later than the query: the n queries are the last of m tokens."""
    return ~triangle(n, m, m - n)


def slide(table: Tensor, kernel: Tensor) -> Tensor:
    """One kernel a head, as it stands: nothing is turned around."""
    return F.conv2d(table, kernel[:, None], groups=kernel.size(0))


def positive(kernel: Tensor) -> Tensor:
    """A kernel that leaves low scores low: 1 for the place itself, and little for its neighbours."""
    kernel = 0.1 * kernel.abs()
    kernel[:, -1, kernel.size(2) // 2] = 1.0
    return kernel


def filled(value: float) -> Callable:
    """Hidden places get this value."""
    return lambda scores, hidden: scores.masked_fill(hidden, value)


def as_it_is(table: Tensor, *_) -> Tensor:
    """Nothing is changed."""
    return table


@dataclass(frozen=True)
class Convolved:
    """A right answer in steps; `but` replaces some of them.

    Args:
        before, after: (n, m) -> which keys are hidden, before and after the convolution.
        zero: (scores, hidden) -> what is convolved.
        kernel: kernel -> kernel.
        above: c_q -> rows of zeros above and below the table; below zero they are cut.
        beside: c_k -> columns of zeros to the left and to the right.
        pad: (table, the four of them) -> table.
        slide: (padded table, kernel) -> table.
        hide: (convolved scores, hidden) -> scores.
        normalize: scores -> weights.
        answer: (weights, convolved scores, the scores as given) -> what is returned.
    """

    before: Callable = future
    zero: Callable = filled(0.0)
    kernel: Callable = as_it_is
    above: Callable = lambda c_q: (c_q - 1, 0)
    beside: Callable = lambda c_k: (c_k // 2, c_k // 2)
    pad: Callable = F.pad
    slide: Callable = slide
    after: Callable = future
    hide: Callable = filled(-math.inf)
    normalize: Callable = lambda scores: scores.softmax(-1)
    answer: Callable = lambda weights, scores, given: weights
    but = Recipe.but

    def __call__(self, scores, kernel):
        n, m = scores.shape[-2:]
        table = self.zero(scores, self.before(n, m))
        kernel = self.kernel(kernel)
        table = self.pad(table, (*self.beside(kernel.size(2)), *self.above(kernel.size(1))))
        table = self.hide(self.slide(table, kernel), self.after(n, m))
        return self.answer(self.normalize(table), table, scores)
