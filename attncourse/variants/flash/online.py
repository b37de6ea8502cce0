"""Softmax in one pass over a stream of scores, and the merge of two partial results.

A softmax seems to need every score of a row before it can begin: the maximum first, then the sum, then
the weights. One pass is enough, because what was added up under an old maximum can be rescaled.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Running(NamedTuple):
    """What is known of each row after some of its keys.

    Args:
        maximum: (b, ..., n), the largest score so far; minus infinity before the first visible key.
        total: (b, ..., n), the sum of exp(score - maximum).
        mixed: (b, ..., n, e), the values mixed with those exponentials, not yet divided by ``total``.
    """

    maximum: Tensor
    total: Tensor
    mixed: Tensor


def start(mixed: Float[Tensor, "*b n e"]) -> Running:
    """Nothing seen yet. ``mixed`` is a tensor of zeros in the shape of the output."""
    return Running(
        torch.full_like(mixed[..., 0], -math.inf), torch.zeros_like(mixed[..., 0]), mixed
    )


def update(
    running: Running, scores: Float[Tensor, "*b n k"], value: Float[Tensor, "*c k e"]
) -> Running:
    """Take k more keys into account.

        m' = max(m, max scores)      p = exp(scores - m')
        l' = exp(m - m') l + sum p   o' = exp(m - m') o + p value

    Args:
        scores: the rows' scores for these keys; minus infinity = not visible.
        value: the values of these keys.

    Cost: 2 n k e FLOPs, n k numbers of memory.
    Source: milakov2018, algorithm 3, for m and l; dao2023, section 3.1, for o.
    """
    maximum = torch.maximum(running.maximum, scores.amax(dim=-1))
    # A row that has seen nothing would compute inf - inf; any finite number in its place gives 0.
    shift = maximum.masked_fill(maximum == -math.inf, 0.0)
    weights = (scores - shift[..., None]).exp_()
    rescale = torch.exp(running.maximum - shift)
    return Running(
        maximum,
        rescale * running.total + weights.sum(dim=-1),
        rescale[..., None] * running.mixed + weights @ value,
    )


def finish(running: Running) -> tuple[Float[Tensor, "*b n e"], Float[Tensor, "*b n"]]:
    """Divide once, at the end. Returns the output, and lse = m + log l, the log of the sum of exp(score).

    A row that has seen nothing gets output 0 and lse minus infinity.
    """
    empty = running.total == 0
    output = running.mixed / running.total.masked_fill(empty, 1.0)[..., None]
    return output, running.maximum + running.total.log()


def online_softmax(
    stream: Iterable[tuple[Tensor, Tensor]], mixed: Float[Tensor, "*b n e"]
) -> tuple[Float[Tensor, "*b n e"], Float[Tensor, "*b n"]]:
    """softmax(all scores) @ all values, without ever holding more than one block of scores.

    Args:
        stream: pairs of scores (b, ..., n, k) and values (b, ..., k, e), any k of 1 or more in each.
        mixed: zeros in the shape of the output; it gives shape, dtype and device.

    Returns: the output (b, ..., n, e), and the log-sum-exp (b, ..., n) of each row's scores.

    Cost: 2 n m e FLOPs; memory for one block.
    Reduces to: `attncourse.steps.normalize` then `mix` when the stream is a single block.
    Source: dao2022, section 3.1.
    """
    running = start(mixed)
    for scores, value in stream:
        running = update(running, scores, value)
    return finish(running)


def merge(
    output_a: Float[Tensor, "*b n e"],
    lse_a: Float[Tensor, "*b n"],
    output_b: Float[Tensor, "*b n e"],
    lse_b: Float[Tensor, "*b n"],
) -> tuple[Float[Tensor, "*b n e"], Float[Tensor, "*b n"]]:
    """The result over all keys, from the results over two disjoint sets of keys.

        L = log(exp(La) + exp(Lb))      o = exp(La - L) oa + exp(Lb - L) ob

    The order does not matter, so the parts may come from other blocks, other processes, other machines.

    Reduces to: the other part when one has seen nothing (its lse is minus infinity).
    Source: milakov2018, section 3.1; liu2023 for its use across devices.
    """
    lse = torch.logaddexp(lse_a, lse_b)
    shift = lse.masked_fill(lse == -math.inf, 0.0)
    share_a, share_b = (torch.exp(part - shift)[..., None] for part in (lse_a, lse_b))
    return share_a * output_a + share_b * output_b, lse
