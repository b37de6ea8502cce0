"""Inputs of linear attention: features near 0 and far from it, and states of earlier tokens."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case

EXTREMES = "features of 1e-8 in head 0 and of 200,000 in head 1"


def elu_plus_one(x: Tensor) -> Tensor:
    """Positive features, written again: the judge shares nothing with the judged."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def with_one(v: Tensor) -> Tensor:
    """A 1 beside each value."""
    return torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)


def drawn(seed: int, calls: Iterable[tuple]) -> list[Case]:
    """Cases from a table of sizes.

    Args:
        seed: of all numbers.
        calls: (special about the call, (b, h, n, d, e) or (b, h, n, m, d, e), None or what changes
            query, key and value, further arguments ...). Gradients are compared where nothing is
            changed.
    """
    g, found = seeded(seed), []
    for what, (b, h, n, *m, d, e), change, *rest in calls:
        args = normal(g, (b, h, n, d), *((b, h, *(m or [n]), width) for width in (d, e)))
        if change:
            change(*args)
        found.append(Case(what, (*args, *rest), gradients=change is None))
    return found


def cut(case: Case) -> Case:
    """The tokens of a text behind so many, and the state (b, h, d, e + 1) of those; None: none.

    The last column of the state counts: it is that of the 1 beside each value.
    """
    *text, before = case.args
    (_, key, value), piece = zip(*(x.tensor_split([before or 0], dim=2) for x in text), strict=True)
    state = None if before is None else elu_plus_one(key).mT @ with_one(value)
    return replace(case, args=(*(x.contiguous() for x in piece), state))


def extremes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Features near 1e-8 in head 0, and some of 200,000 in head 1: no limit hides.

    elu(x) + 1 rounds the small ones to 0, and what is added to a sum of their products, 1e-16, is
    all of the sum. In head 1 the large feature meets one below 1e-3.
    """
    query[:, 0] = -18.0 - 0.4 * query[:, 0].tanh().abs()
    key[:, 0] = -18.0 - 0.4 * key[:, 0].tanh().abs()
    query[:, 1, ..., 0], key[:, 1, ..., 0] = -7.0, 2e5


def faint(*inputs: Tensor) -> None:
    """Queries and keys whose features are some hundredths."""
    for x in inputs[:2]:
        x.abs_().div_(-4).sub_(3.5)


def uneven(query: Tensor, key: Tensor, value: Tensor) -> None:
    """The first products are nearly 0, so that nothing can be added to their sum; others large."""
    faint(query, key[:, :, :2])
    key[:, :, 2:] *= 4
    key[:, :, 1:2], key[:, :, 2:3, 0] = -5.5, 16.0


def late(query: Tensor, key: Tensor, value: Tensor) -> None:
    """A last key and value so large that their rounding would be seen in all others."""
    key[:, :, -1] = value[:, :, -1] = 1e6
