"""How a state fades: factors of a chunk, products with them, and what padding leaves as it is."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.interface import check_sequences

Decay = Float[Tensor, "b h n"] | Float[Tensor, "b h n d"]


class Decays(NamedTuple):
    """What is left inside a chunk, as factors.

    Args:
        since: of the state before the chunk, when token i reads.
        between: of token j, when token i reads.
        until: of token j, behind the chunk.
    """

    since: Float[Tensor, "b h n c"]
    between: Float[Tensor, "b h n n c"]
    until: Float[Tensor, "b h n c"]


def decays(log_decay: Float[Tensor, "b h n c"], resets: bool = True) -> Decays:
    """The factors of a chunk, from differences of running sums of the log-decays.

        since(i) = exp(total(i))      between(i, j) = exp(total(i) - total(j))      until(j) = exp(total(n) - total(j))

    Behind a reset, a log-decay of minus infinity, a difference would be inf - inf. So resets are not summed but
    counted, and a factor is 0 where their counts differ.

    Args:
        log_decay: the last axis is d or 1.
        resets: ``False`` promises that there is none.

    Cost: n^2 c numbers.
    Chapter: 19_gated_delta.
    """
    if not resets:
        total = log_decay.cumsum(dim=2)
        return Decays(total.exp(), decay_between(total), (total[:, :, -1:] - total).exp())
    reset = log_decay == -math.inf
    total, count = log_decay.masked_fill(reset, 0.0).cumsum(dim=2), reset.cumsum(dim=2)
    since = total.masked_fill(count > 0, -math.inf)
    until = (total[:, :, -1:] - total).masked_fill(count < count[:, :, -1:], -math.inf)
    same = count[:, :, :, None] == count[:, :, None]
    return Decays(since.exp(), decay_between(total) * same, until.exp())


def decay_between(total: Float[Tensor, "b h n c"]) -> Float[Tensor, "b h n n c"]:
    """How much of token j is left when token i reads.

        decay(i, j) = exp(total(i) - total(j))     for j <= i, else 0

    Args:
        total: sum of the log-decays up to each token; the last axis is d or 1.

    Cost: n^2 c numbers.
    Chapter: 19_gated_delta.
    """
    n = total.size(2)
    past = total.new_ones(n, n).tril()[:, :, None]
    # 0 before `exp`: above the diagonal the differences are positive, and may be large. (It is also quicker than -inf.)
    return ((total[:, :, :, None] - total[:, :, None]) * past).exp() * past


def decayed_products(
    keys: Float[Tensor, "b h n d"],
    decay: Float[Tensor, "b h n n c"],
    *rows: Float[Tensor, "b h n d"],
) -> tuple[Float[Tensor, "b h n n"], ...]:
    """Products of each row with the keys up to its own, faded by what decayed in between.

        product(i, j) = sum_d rows(i, d) keys(j, d) decay(i, j, d)

    Args:
        keys: of the tokens of a chunk.
        decay: from `decay_between`.
        rows: queries, or keys, or both, of the same tokens.

    Returns: as many tables.

    Cost: 2 n^2 d FLOPs for each of them.
    Chapter: 19_gated_delta.
    """
    if decay.size(-1) == 1:
        return tuple(x @ keys.mT * decay[..., 0] for x in rows)
    faded = decay * keys[:, :, None]  # once for all rows
    return (faded @ torch.stack(rows, dim=-1)).unbind(-1)


def next_state(
    k: Float[Tensor, "b h c d"],
    added: Float[Tensor, "b h c e"],
    decay: Decays,
    state: Float[Tensor, "b h d e"],
) -> Float[Tensor, "b h d e"]:
    """The state behind a chunk; ``added`` are the values that its tokens write."""
    return decay.since[:, :, -1:].mT * state + (k * decay.until).mT @ added


def retention_decay(num_heads: int) -> Float[Tensor, " h"]:
    """The constant log-decays of retention: head h keeps 1 - 2^(-5-h) of its state at each step.

    Source: sun2023.
    Chapter: 19_gated_delta.
    """
    return torch.log1p(-(2.0 ** (-5.0 - torch.arange(num_heads))))


def padding(key_mask: Tensor | None, key: Tensor) -> Bool[Tensor, "b h n 1"] | None:
    """``True`` where a token is padding, for all channels of its key.

    Args:
        key_mask: bool, ``False`` where it is: (b, n) or (b, h, n).
        key: (b, h, n, d).

    Raises:
        ValueError: another dtype or shape.
    """
    if key_mask is None:
        return None
    given, (b, h, n, _) = key_mask, key.shape
    if key_mask.dim() == 2:
        key_mask = key_mask[:, None]
    fits = key_mask.dim() == 3 and key_mask.size(0) in (1, b) and key_mask.size(1) in (1, h)
    if given.dtype != torch.bool or not fits or key_mask.size(2) != n:
        raise ValueError(
            f"key_mask must be bool, True = may be read, of shape ({b}, {n}) or ({b}, {h}, {n}); got {given.dtype} of "
            f"shape {tuple(given.shape)}. Of an attention_mask of 0 and 1: attention_mask.bool()"
        )
    return ~key_mask[..., None]


def unread(hidden: Tensor | None, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Tensor]:
    """Padding has a key of 0 and forgets nothing, so that the state stays as it is."""
    if hidden is None:
        return key, log_decay
    fades = hidden if log_decay.dim() == key.dim() else hidden[..., 0]
    return key.masked_fill(hidden, 0.0), log_decay.masked_fill(fades, 0.0)


def check_sequence(query, key, value, log_decay, state, chunk) -> tuple[Tensor, Tensor, int]:
    """The log-decays with an axis for channels, the state, empty if there is none, and the chunk; refuses other shapes."""
    check_sequences(query, key, value)
    b, h, n, d = query.shape
    if n != key.size(2):
        raise ValueError(
            f"query, key and value must be of one sequence; got {n} queries and {key.size(2)} keys. Earlier tokens come "
            f"in by state"
        )
    if log_decay.shape not in ((b, h, n), (b, h, n, d)):
        raise ValueError(
            f"log_decay must be ({b}, {h}, {n}), or ({b}, {h}, {n}, {d}) with one for each channel; got "
            f"{tuple(log_decay.shape)}. Constant decays need .expand"
        )
    log_decay = log_decay[..., None] if log_decay.dim() == 3 else log_decay
    if chunk is None:
        chunk = 64 if log_decay.size(-1) == 1 else 16
    if chunk < 1:
        raise ValueError(f"chunk counts the tokens of a step and must be at least 1; got {chunk}")
    wanted = (b, h, d, value.size(-1))
    state = key.new_zeros(wanted) if state is None else state
    if state.shape != wanted:
        raise ValueError(
            f"state must be {wanted}; got {tuple(state.shape)}. Pass what return_state returned"
        )
    return log_decay, state, chunk


def perhaps_resets(log_decay: Tensor) -> bool:
    """False if no log-decay is minus infinity; ``True`` also where that cannot be told at once, as in a traced call."""
    if torch.compiler.is_compiling() or log_decay.device.type != "cpu":
        return True
    try:
        return bool((log_decay == -math.inf).any())
    except RuntimeError:  # inside vmap there are no values to look at
        return True
