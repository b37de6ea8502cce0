"""A softmax with one more in its denominator, in steps, and pieces of those that go wrong."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Mistake


@dataclass(frozen=True)
class Softmax:
    """A right answer in steps; a mistake replaces one.

    Args:
        axis: (scores, dim) -> along which the softmax runs.
        clean: scores -> scores, before all else.
        largest: (scores, dim) -> what is subtracted.
        exponential: (scores - largest) -> exponentials.
        one: largest -> what is added to their sum.
        total: (exponentials, one, dim) -> the denominator.
        answer: (exponentials, denominator, dim) -> what is returned.
    """

    axis: Callable = lambda scores, dim: dim
    clean: Callable = lambda scores: scores
    largest: Callable = lambda scores, dim: scores.amax(dim, keepdim=True).clamp(min=0.0)
    exponential: Callable = torch.exp
    one: Callable = lambda largest: torch.exp(-largest)
    total: Callable = lambda x, one, dim: one + x.sum(dim, keepdim=True)
    answer: Callable = lambda x, total, dim: x / total

    def __call__(self, scores, dim):
        dim, scores = self.axis(scores, dim), self.clean(scores)
        largest = self.largest(scores, dim)
        x = self.exponential(scores - largest)
        return self.answer(x, self.total(x, self.one(largest), dim), dim)

    def but(self, says: str, **steps: Callable) -> Mistake:
        return Mistake(says, replace(self, **steps), steps)


def largest_alone(scores, dim):
    """The largest score of the row, even if it is below 0."""
    return scores.amax(dim, keepdim=True)


def clamped(low, high):
    """Scores within these bounds; minus infinity stays."""
    return lambda s: torch.where(s == -math.inf, s, s.clamp(low, high))


def extended(pick, more=0.0):
    """The softmax of the scores and one more; ``pick`` says what is returned of n + 1 weights."""

    def answer(scores, dim):
        rows = F.pad(scores.movedim(dim, -1), (0, 1), value=more)
        return pick(rows.softmax(-1)).movedim(-1, dim)

    return answer


NONE = {"largest": lambda s, dim: 0.0, "one": lambda largest: 1.0}  # nothing is subtracted
PLAIN = {"largest": largest_alone, "one": lambda largest: 0.0}
