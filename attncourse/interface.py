"""What an attention layer takes, and what every layer and function refuses: so all of them can be exchanged."""

import operator
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class AttentionLayer(Protocol):
    """How every attention layer of the course is called.

    What a mechanism cannot do it refuses with a ValueError that names the reason.

    Args:
        query: the sequence that asks.
        key: the sequence that answers; ``None`` means ``query``.
        value: what it answers; ``None`` means ``key``.
        attn_mask: bool, ``True`` = may attend, or float, added to the scores. Every layer takes padding: a bool
            mask (b, 1, 1, m) that says the same to all queries.
        is_causal: query i reads keys 0..i. Layers that read in order are causal unless told otherwise.
        positions: of the tokens; queries and keys are turned by them.
        need_weights: return (output, weights).
    """

    def __call__(
        self,
        query: Float[Tensor, "b n width"],
        key: Float[Tensor, "b m kdim"] | None = None,
        value: Float[Tensor, "b m vdim"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        positions: Int[Tensor, "*b n"] | None = None,
        need_weights: bool = False,
    ) -> Any: ...


def check_sequences(query: Tensor, key: Tensor, value: Tensor, shared_heads: bool = False) -> None:
    """Refuse queries, keys and values that do not belong together, and sequences without a token.

    Args:
        query, key, value: (..., heads, seq, head_dim); in the first axes they must be equal.
        shared_heads: key and value may have fewer heads, a divisor of query's.
    """
    shapes = f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    axes = {query.dim(), key.dim(), value.dim()}
    if len(axes) > 1 or min(axes) < 2 or (shared_heads and axes != {4}):
        raise ValueError(
            f"query, key and value must be (batch, heads, seq, head_dim); {shapes}. One head needs an axis: x[:, None]"
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"query and key must have the same head_dim (last axis); {shapes}. Project both to one width"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(
            f"key and value must have the same length (axis -2); {shapes}. Each key needs one value"
        )
    _check_not_empty(query.size(-2), key.size(-2), shapes)
    if shared_heads:
        _check_shared(query, key, value, shapes)
    elif not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(
            f"query, key and value must have the same batch and heads; {shapes}. For fewer key "
            f"heads use scaled_dot_product_attention(..., enable_gqa=True)"
        )


def check_inputs(query: Tensor, key: Tensor, value: Tensor, *widths: int) -> None:
    """Refuse inputs of a layer that are not of its widths, or do not fit each other."""
    for name, x, width in zip(("query", "key", "value"), (query, key, value), widths, strict=True):
        if x.dim() != 3 or x.size(-1) != width:
            raise ValueError(
                f"{name} must be (batch, seq, {width}); got shape {tuple(x.shape)}. "
                f"A single sequence needs a batch axis: x[None]"
            )
    shapes = f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if key.size(1) != value.size(1):
        raise ValueError(
            f"key and value must have the same length (axis 1); {shapes}. Each key needs one value"
        )
    if not query.size(0) == key.size(0) == value.size(0):
        raise ValueError(
            f"query, key and value must be of one batch; {shapes}. One memory for all: memory.expand({query.size(0)}, -1, -1)"
        )
    _check_not_empty(query.size(1), key.size(1), shapes)


def refuse(layer: nn.Module, why: str, **given: object) -> None:
    """A mechanism says what it cannot do, if a call asks for it: for anything that is not None or False."""
    names = [name for name, x in given.items() if x is not None and x is not False]
    if names:
        raise ValueError(
            f"{type(layer).__name__} takes no {' and no '.join(given)}: {why}; got {' and '.join(names)}. "
            f"Leave it out, or use another layer"
        )


def key_mask(attn_mask: Tensor | None, layer: nn.Module, why: str) -> Bool[Tensor, "*b m"] | None:
    """Which keys may be read at all, out of a mask that says the same to every query.

    Args:
        attn_mask: bool, (b, 1, 1, m) or (1, m), for all heads alike; ``None`` hides nothing.
        layer: who asks, for the message.
        why: what keeps it from hiding single pairs.

    Returns: the mask without its axis of queries.
    """
    if attn_mask is None:
        return None
    alike = attn_mask.dim() in (2, 4) and all(x == 1 for x in attn_mask.shape[1:-1])
    if attn_mask.dtype != torch.bool or not alike or attn_mask.size(-2) != 1:
        raise ValueError(
            f"{type(layer).__name__} takes padding, a bool mask (batch, 1, 1, keys) with True = may attend, and no "
            f"other attn_mask: {why}; got {attn_mask.dtype} of shape {tuple(attn_mask.shape)}. Hide keys from all "
            f"queries alike, or use another layer"
        )
    return attn_mask[..., 0, :]


def whole(name: str, x: Any) -> int:
    """A number that counts, of Python's kind or another, as ``numpy.int64``; 2.5 and 2.0 are refused."""
    try:
        return operator.index(x)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number; got {x!r}. Round it first, with round or int"
        ) from None


def check_divisible(what: str, width: int, count: int, of: str = "num_heads") -> None:
    """Refuse a width that cannot be shared out, and say which counts can."""
    if count < 1 or width % count:
        *others, last = (str(h) for h in range(1, width + 1) if width % h == 0)
        divisors = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{what}={width} is not a multiple of {of}={count}; use {divisors}")


def _check_not_empty(n: int, m: int, shapes: str) -> None:
    if n == 0 or m == 0:
        raise ValueError(
            f"a sequence must have one token or more; {shapes}. Leave out a call that has nothing to ask or to read"
        )


def _check_shared(query: Tensor, key: Tensor, value: Tensor, shapes: str) -> None:
    if not (query.size(0) == key.size(0) and key.shape[:2] == value.shape[:2]):
        raise ValueError(
            f"batch, and key/value heads of key and value, must agree; {shapes}. One batch for all: key.expand"
        )
    if not key.size(1) or query.size(1) % key.size(1):
        raise ValueError(
            f"the number of query heads must be a multiple of the number of key/value heads; got "
            f"{query.size(1)} and {key.size(1)}; use a divisor of {query.size(1)}"
        )
