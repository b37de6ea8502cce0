"""Attention with a learned sink, in steps, and ways to bring the sink in that go wrong."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.recipe import Recipe


@dataclass(frozen=True)
class WithSink(Recipe):
    """`Recipe` with two more steps, around the softmax.

    Args:
        append: (scores, sink) -> the scores with one more column.
        drop: weights -> weights of the keys.
    """

    append: Callable = lambda scores, sink: torch.cat([scores, column(scores, sink)], -1)
    drop: Callable = lambda weights: weights[..., :-1]

    def __call__(self, *arguments):
        x = self.given(*arguments)
        scores = self.mask(self.score(x) * self.scale(x), x)
        weights = self.normalize(self.append(scores, x.rest))
        weights = self.finish(self.drop(weights), x)
        return self.answer(self.mix(weights, x), weights, scores, x)


def column(scores, sink):
    """The sink of each head, once a query."""
    return sink[:, None, None].expand(*scores.shape[:-1], 1)


def alone(change=lambda w, sink: w):
    """No column is appended; the weights of the ordinary softmax are changed."""
    return {"append": lambda s, sink: s, "drop": lambda w: w,
            "finish": lambda w, x: change(w, x.rest[:, None, None])}  # fmt: skip


def by_hand(sum_up, least=-math.inf):
    """The exponentials less the row's largest score, divided by what is made of them and of the sink."""

    def append(s, sink):
        top = s.amax(-1, keepdim=True).clamp(min=least)
        e = torch.exp(s - top)
        return e / sum_up(e, sink[:, None, None], top)

    return {"append": append, "normalize": lambda w: w, "drop": lambda w: w}


def opened(share):
    """The ordinary softmax, times a share of the scores and the sink."""

    def append(s, sink):
        return s.softmax(-1).nan_to_num(0.0) * share(s, sink[:, None, None])

    return {"append": append, "normalize": lambda w: w, "drop": lambda w: w}


def total(e):
    """The sum over the last axis, which stays."""
    return e.sum(-1, keepdim=True)
