"""Who may read whom: rules ``mask_mod(b, h, q_idx, kv_idx) -> bool``, ``True`` = may attend.

The signature is that of PyTorch's ``flex_attention``, so a rule written here runs there unchanged.
The indices may be plain ints or tensors that broadcast.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attncourse.interface import whole
from attncourse.mods import Index, MaskMod, named


def causal(b: Index, h: Index, q_idx: Index, kv_idx: Index) -> Tensor | bool:
    """A query reads itself and what came before.

        visible(i, j) = j <= i

    Cost: keeps n (n + 1) / 2 of n n pairs.
    Source: vaswani2017, section 3.2.3.
    Chapter: 02_masks.
    """
    return kv_idx <= q_idx


@named
def causal_at(offset: int) -> MaskMod:
    """Causal, for queries that stand ``offset`` positions later than the first key.

        visible(i, j) = j <= i + offset

    Args:
        offset: position of query 0 among the keys. ``m - n`` aligns the *last* query with the last
            key ("bottom-right"); 0 aligns the first ones ("top-left", torch's ``is_causal``).

    Reduces to: `causal` when offset = 0.
    Chapter: 02_masks.
    """

    def rule(b, h, q_idx, kv_idx):
        return kv_idx <= q_idx + offset

    return rule


@named
def sliding_window(left: int, right: int) -> MaskMod:
    """A query reads its neighbours: some before it, itself, and some behind it.

        visible(i, j) = i - left <= j <= i + right

    Args:
        left, right: neighbours on each side, 0 or more; in the middle left + 1 + right keys are seen.

    Raises:
        ValueError: a negative number of neighbours. TypeError: one that is not whole.

    Cost: keeps at most n (left + 1 + right) of n m pairs.
    Reduces to: `causal` when right = 0 and left >= n - 1.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """
    left, right = whole("left", left), whole("right", right)
    if left < 0 or right < 0:
        raise ValueError(
            f"left and right count neighbours and must be 0 or more; got {left} and {right}. For a "
            f"causal window of w tokens, the token itself among them, use (w - 1, 0)"
        )

    def rule(b, h, q_idx, kv_idx):
        return (kv_idx >= q_idx - left) & (kv_idx <= q_idx + right)

    return rule


@named
def dilated(left: int, right: int, step: int) -> MaskMod:
    """A window with gaps: as many keys, further apart.

        visible(i, j) = j - i is one of -left step, ..., -2 step, -step, 0, step, ..., right step

    Args:
        left, right: keys on each side, 0 or more.
        step: distance from one to the next, 1 or more.

    Raises:
        ValueError: a negative number of keys, or a step below 1. TypeError: a number that is not whole.

    Cost: keeps at most n (left + 1 + right) of n m pairs.
    Reduces to: `sliding_window` when step = 1.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """
    left, right, step = whole("left", left), whole("right", right), whole("step", step)
    if step < 1:
        raise ValueError(f"step is a distance between keys and must be 1 or more; got {step}")
    near = sliding_window(left * step, right * step)

    def rule(b, h, q_idx, kv_idx):
        return near(b, h, q_idx, kv_idx) & ((kv_idx - q_idx) % step == 0)

    return rule


@named
def padding(lengths: Int[Tensor, " b"]) -> MaskMod:
    """Keys behind the end of their sample are not there.

        visible(b, j) = j < lengths(b)

    Args:
        lengths: real tokens of each sample, padding on the right; 0 hides the whole sample.

    Raises:
        ValueError: a negative length.

    Reduces to: no mask when every length is the number of keys.
    Chapter: 02_masks.
    """
    if (lengths < 0).any():
        raise ValueError(f"lengths count tokens and must be 0 or more; got {lengths.tolist()}")

    def rule(b, h, q_idx, kv_idx):
        return kv_idx < lengths[b]

    return rule


@named
def present(keys: Bool[Tensor, "b m"]) -> MaskMod:
    """Only keys marked as present may be read: padding on any side, or holes.

        visible(b, j) = keys(b, j)

    Args:
        keys: ``True`` where a real token stands, for example ``tokens != pad_id``.

    Reduces to: `padding` when the tokens of each sample are its first ones.
    Chapter: 02_masks.
    """
    if keys.dtype != torch.bool:
        raise TypeError(
            f"keys must be bool, True = a real token; got {keys.dtype}. Use keys.bool() if 1 marks "
            f"a real token, ~keys.bool() if 1 marks padding"
        )

    def rule(b, h, q_idx, kv_idx):
        return keys[b, kv_idx]

    return rule


@named
def global_tokens(is_global: Bool[Tensor, "b n"]) -> MaskMod:
    """A global token reads every token, and every token reads it.

        visible(b, i, j) = is_global(b, i) or is_global(b, j)

    Args:
        is_global: ``True`` for the tokens that everyone may read, for example ``tokens == cls_id``; each
            sample has its own.

    Raises:
        TypeError: another dtype than bool.

    Cost: keeps 2 g n - g^2 of n n pairs for g global tokens.
    Reduces to: no mask when every token is global; nothing is visible when none is.
    Source: beltagy2020, section 3.1.
    Chapter: 14_global_local.
    """
    if is_global.dtype != torch.bool:
        raise TypeError(
            f"is_global must be bool, True = a global token; got {is_global.dtype}. Use "
            f"is_global.bool() if 1 marks a global token"
        )

    def rule(b, h, q_idx, kv_idx):
        return is_global[b, q_idx] | is_global[b, kv_idx]

    return rule


@named
def all_of(*mask_mods: MaskMod) -> MaskMod:
    """A pair is visible when every rule allows it. No rule at all allows everything."""

    def rule(b, h, q_idx, kv_idx):
        visible = torch.ones((), dtype=torch.bool)
        for mask_mod in mask_mods:
            visible = visible & mask_mod(b, h, q_idx, kv_idx)
        return visible

    return rule


@named
def any_of(*mask_mods: MaskMod) -> MaskMod:
    """A pair is visible when at least one rule allows it. No rule at all forbids everything."""

    def rule(b, h, q_idx, kv_idx):
        visible = torch.zeros((), dtype=torch.bool)
        for mask_mod in mask_mods:
            visible = visible | mask_mod(b, h, q_idx, kv_idx)
        return visible

    return rule


def dense(
    mask_mod: MaskMod, batch: int, heads: int, n: int, m: int
) -> Bool[Tensor, "batch heads n m"]:
    """The rule as a table: ask it about every pair at once.

    Args:
        mask_mod: a rule of this module, or your own.
        batch, heads: sizes of the first two axes; 1 where the rule does not look at them.
        n, m: number of queries and of keys.

    Returns: bool mask for `attncourse.steps.attention` and torch, ``True`` = may attend.

    Cost: batch * heads * n * m bytes.
    Chapter: 02_masks.
    """
    b, h, i, j = (torch.arange(size) for size in (batch, heads, n, m))
    visible = mask_mod(b[:, None, None, None], h[:, None, None], i[:, None], j)
    return torch.broadcast_to(torch.as_tensor(visible), (batch, heads, n, m)).contiguous()
