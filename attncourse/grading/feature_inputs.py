"""Inputs of linear attention: features near 0 and far from it, values that show the weights."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case

EXTREMES = "features of 0.0001 in head 0 and of 200,000 in head 1"
UNIT = "values that are rows of the unit matrix, so that the output is the table of weights"


def elu_plus_one(x: Tensor) -> Tensor:
    """Positive features, written again: the judge shares nothing with the judged."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def with_one(v: Tensor) -> Tensor:
    """A 1 beside each value."""
    return torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)


def drawn(seed: int, calls: Iterable[tuple]) -> list[Case]:
    """Cases from a table of sizes; gradients are compared where ``loud`` is 1 and values are drawn.

    Args:
        seed: of all numbers.
        calls: (special about the call, (b, h, n, m, d, e), how loud, further arguments ...). With
            e = 0 values are those of a unit matrix; a further argument that is a function is drawn.
            Loud is a function that changes query, key and value, or a factor: above 1 the first
            products are nearly 0, so that nothing can be added to their sum, and some features
            are large.
    """
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), loud, *rest in calls:
        query, key, value = normal(g, (b, h, n, d), (b, h, m, d), (b, h, m, e or m))
        if not e:
            value = torch.eye(m).expand(b, h, m, m).contiguous()
        further: list[Any] = [x(g) if callable(x) else x for x in rest]
        if callable(loud):
            loud(query, key, value)
        elif loud > 1:
            query, key = faint(query), torch.cat([faint(key[:, :, :2]), loud * key[:, :, 2:]], 2)
            key[:, :, 1:2], key[:, :, 2:3, 0] = -5.5, 4.0 * loud
        found.append(Case(what, (query, key, value, *further), gradients=loud == 1 and e > 0))
    return found


def extremes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Features of keys near 1e-4 in head 0, and some of 200,000 in head 1: no limit hides.

    The values of head 0 are some hundredths, so that neither the rounding of elu(x) + 1 nor 1e-6
    beside a sum of the weights counts. In head 1 the large feature meets one below 1e-3.
    """
    query[:, 0] = query[:, 0].tanh().abs() / 2
    key[:, 0] = -8.8 - 0.4 * key[:, 0].tanh().abs()
    value[:, 0] = value[:, 0].tanh() / 50
    query[:, 1, ..., 0], key[:, 1, ..., 0] = -7.0, 2e5


def faint(x: Tensor) -> Tensor:
    """Numbers whose features are some hundredths."""
    return -3.5 - x.abs() / 4


def state_before(
    b: int, h: int, d: int, e: int, tokens: int
) -> Callable[[torch.Generator], Tensor]:
    """Draws a state (b, h, d, e + 1) of some tokens; its last column counts."""

    def state(g: torch.Generator) -> Tensor:
        k = elu_plus_one(torch.randn(b, h, tokens, d, generator=g))
        return k.mT @ with_one(torch.randn(b, h, tokens, e, generator=g))

    return state
