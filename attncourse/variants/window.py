"""Sliding-window attention: every query reads its neighbours, and nothing else is computed."""

from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.layers import SelfAttention
from attncourse.masks import dense, sliding_window
from attncourse.mods import MaskMod
from attncourse.steps import check_mask, mask
from attncourse.variants.flash import check_inputs

# Queries of a block. More of them read more keys that only others of the block need.
ROWS = 64


def sliding_window_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    window_size: tuple[int, int],
    *,
    enable_gqa: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> Float[Tensor, "b h n e"]:
    """Attention of neighbours, block by block; no tensor of queries x keys exists at any time.

        output(i) = sum_j softmax_j(scale query(i) . key(j)) value(j)      i - left <= j <= i + right

    A block of queries reads the blocks of keys in which its neighbours lie, and a mask hides the rest of
    those. The keys are cut once and joined for each block: a slice in the loop would send back a gradient as
    long as the sequence, and the loop would be quadratic after all.

    Args:
        query, key, value: any lengths; values may have another width.
        window_size: (left, right), neighbours on each side; a query always sees itself. (left, 0) is causal.
        enable_gqa: key and value may have fewer heads; query head h reads head h // (h / g).
        scale: factor on the dot products; ``None`` means 1 / sqrt(head_dim).
        dropout_p: probability that a weight is zeroed, in evaluation too, as in torch.
        offset: position of query 0 among the keys: 0 aligns the first ones, m - n the last ones.

    Returns: the output; 0, with zero gradient, for a query that has no neighbours.

    Raises:
        TypeError: one number as the window. ValueError: a negative number of neighbours, or shapes that do not fit.

    Cost: at most 2 n (left + right + 2 ``ROWS``) (d + e) FLOPs per head; memory for the inputs and one block.
    Reduces to: causal attention when left >= n - 1 and right = 0.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """
    rule = _rule(window_size)
    left, right = window_size
    check_inputs(query, key, value, None, enable_gqa)
    keys, values = key.split(ROWS, dim=2), value.split(ROWS, dim=2)

    @cache  # all blocks but those at the ends have the same mask
    def visible(n: int, m: int, ahead: int) -> Bool[Tensor, "n m"]:
        i, j = (torch.arange(length, device=key.device) for length in (n, m))
        return torch.as_tensor(rule(0, 0, i[:, None] + ahead, j))

    outputs = []
    for block, rows in enumerate(query.split(ROWS, dim=2)):
        first = block * ROWS + offset  # the position of its first query
        near = neighbours(first - left, first + ROWS - 1 + right, len(keys))
        k, v = torch.cat(keys[near], dim=2), torch.cat(values[near], dim=2)
        seen = visible(rows.size(2), k.size(2), first - near.start * ROWS)
        outputs.append(
            F.scaled_dot_product_attention(
                rows, k, v, seen, dropout_p, scale=scale, enable_gqa=enable_gqa
            )
        )
    return torch.cat(outputs, dim=2)


def neighbours(first: int, last: int, count: int) -> slice:
    """Which of ``count`` blocks hold the positions first..last; one of them even if none does."""
    start = min(max(first // ROWS, 0), count - 1)
    return slice(start, max(last // ROWS, start) + 1)


def pair(window_size: int | tuple[int, int]) -> tuple[int, int]:
    """(left, right) of a window: of one number, half on each side, rounded down."""
    if isinstance(window_size, int):
        return window_size // 2, window_size // 2
    return window_size


def joined(rule: MaskMod, q: Tensor, k: Tensor, attn_mask: Tensor | None) -> Tensor:
    """A mask that hides what the rule forbids and what an ``attn_mask`` hides."""
    visible = dense(rule, 1, 1, q.size(2), k.size(2))[0, 0].to(q.device)
    if attn_mask is None:
        return visible
    check_mask(attn_mask, axes=4)
    return attn_mask & visible if attn_mask.dtype == torch.bool else mask(attn_mask, visible)


def _rule(window_size: tuple[int, int]) -> MaskMod:
    if isinstance(window_size, int):
        raise TypeError(
            f"window_size is a pair (left, right); got {window_size}. For a causal window of w tokens, the "
            f"token itself among them, use (w - 1, 0)"
        )
    return sliding_window(*window_size)


class SlidingWindowAttention(SelfAttention):
    """Self-attention in which every position reads its neighbours only.

        head_h = sliding_window_attention(x W_h^Q, x W_h^K, x W_h^V, window_size)

    Args:
        embed_dim, num_heads: as in `attncourse.layers.MultiHeadAttention`.
        window_size: (left, right); or one number w for |i - j| <= w / 2: w // 2 neighbours on each side, so
            w + 1 keys if w is even and w if it is odd.
        options: of `attncourse.layers.MultiHeadAttention`, as ``num_kv_heads``.

    With ``is_causal`` only the left neighbours remain. An ``attn_mask`` is joined with the window; with one, and with
    ``need_weights``, all n n pairs are computed.

    Reduces to: `attncourse.layers.SelfAttention` when the window holds the whole sequence.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, window_size: int | tuple[int, int], **options
    ):
        super().__init__(embed_dim, num_heads, **options)
        self.window_size = pair(window_size)
        sliding_window(*self.window_size)  # it says what is wrong with the numbers

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The blocks; or the window as a mask, when all weights are wanted or forbidden one by one."""
        left, right = pair(self.window_size)
        window = (left, 0 if is_causal else right)
        if attn_mask is None and not need_weights:
            shared = self.num_kv_heads < self.num_heads
            dropout_p = self.dropout if self.training else 0.0
            out = sliding_window_attention(q, k, v, window, enable_gqa=shared, dropout_p=dropout_p)
            return out, None
        visible = joined(sliding_window(*window), q, k, attn_mask)
        return super().attend(q, k, v, visible, need_weights=need_weights)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window_size={self.window_size}"
