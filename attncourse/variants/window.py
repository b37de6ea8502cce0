"""Sliding-window attention: every query reads its neighbours, and nothing else is computed."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.interface import whole
from attncourse.layers import SelfAttention
from attncourse.masks import sliding_window
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
    key_mask: Bool[Tensor, "*b m"] | None = None,
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
        key_mask: (b, m), or (m) for all samples, with axes of 1 between them if you like: ``False`` hides a key
            from all queries, as padding. ``None`` hides nothing.

    Returns: the output; 0, with zero gradient, for a query that has no neighbours.

    Raises:
        TypeError: one number as the window, or numbers that are not whole.
        ValueError: a negative number of neighbours, or shapes that do not fit.

    It can be compiled as one graph, exported and batched (``torch.vmap``). A graph holds the blocks of one length:
    the loop over them is unrolled, and blocks side by side in one call would take twice the memory.

    Cost: at most 2 n (left + right + 2 ``ROWS``) (d + e) FLOPs per head; memory for the inputs and one block.
    Reduces to: causal attention when left >= n - 1 and right = 0.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """
    left, right = _two(window_size)
    check_inputs(query, key, value, None, enable_gqa)
    options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa, "dropout_p": dropout_p}
    real = of_every_sample(key_mask, key)
    return by_blocks(query, key, value, (left, right), offset, real, **options)


def by_blocks(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    window_size: tuple[int, int],
    offset: int,
    real: Bool[Tensor, "b m"] | None,
    **options: Any,
) -> Float[Tensor, "b h n e"]:
    """The neighbours of each block of queries, one block after the other."""
    (left, right), rule = window_size, sliding_window(*window_size)
    keys, values = key.split(ROWS, dim=2), value.split(ROWS, dim=2)
    made: dict[tuple[int, ...], Tensor] = {}  # all blocks but those at the ends have the same mask
    outputs = []
    for block, rows in enumerate(query.split(ROWS, dim=2)):
        first = block * ROWS + offset  # the position of its first query
        near = neighbours(first - left, first + ROWS - 1 + right, len(keys))
        k, v = torch.cat(keys[near], dim=2), torch.cat(values[near], dim=2)
        shape = rows.size(2), k.size(2), first - near.start * ROWS
        if shape not in made:
            made[shape] = table(rule, *shape, key.device)
        seen = made[shape]
        if real is not None:
            seen = seen & real[:, None, None, near.start * ROWS : near.stop * ROWS]
        outputs.append(F.scaled_dot_product_attention(rows, k, v, seen, **options))
    return torch.cat(outputs, dim=2)


def neighbours(first: int, last: int, count: int) -> slice:
    """Which of ``count`` blocks hold the positions first..last; one of them even if none does."""
    start = min(max(first // ROWS, 0), count - 1)
    return slice(start, max(last // ROWS, start) + 1)


def table(rule: MaskMod, n: int, m: int, offset: int, device: torch.device) -> Bool[Tensor, "n m"]:
    """Who reads whom by a rule that looks at positions only; query 0 stands at ``offset`` among the keys."""
    i, j = (torch.arange(length, device=device) for length in (n, m))
    return torch.as_tensor(rule(0, 0, i[:, None] + offset, j))


def pair(window_size: int | tuple[int, int]) -> tuple[int, int]:
    """(left, right) of a window: of one number, half on each side, rounded down."""
    if isinstance(window_size, tuple | list):
        return _two(window_size)
    half = whole("window_size", window_size) // 2
    return half, half


def joined(
    rule: MaskMod, q: Tensor, k: Tensor, attn_mask: Tensor | None, offset: int = 0
) -> Tensor:
    """A mask that hides what the rule forbids and what an ``attn_mask`` hides."""
    visible = table(rule, q.size(2), k.size(2), offset, q.device)
    if attn_mask is None:
        return visible
    check_mask(attn_mask, axes=4)
    return attn_mask & visible if attn_mask.dtype == torch.bool else mask(attn_mask, visible)


def of_every_sample(
    key_mask: Bool[Tensor, "*b m"] | None, key: Float[Tensor, "b g m d"]
) -> Bool[Tensor, "b m"] | None:
    """A mask of keys with one row a sample; one that does not belong to these keys is refused."""
    if key_mask is None:
        return None
    b, m = key.size(0), key.size(2)
    *samples, keys = key_mask.shape
    fits = keys == m and samples[:1] in ([], [1], [b]) and {*samples[1:]} <= {1}
    if not fits or key_mask.dtype != torch.bool:
        raise ValueError(
            f"key_mask must be bool, True = may be read, of shape (batch, keys) = {(b, m)}; got {key_mask.dtype} of "
            f"shape {tuple(key_mask.shape)}. Make it of the keys' own tokens, as tokens != pad_id"
        )
    return key_mask.reshape(-1, m).expand(b, m)


def padding_alone(attn_mask: Tensor | None) -> bool:
    """Whether a mask says the same to all queries of all heads, so that the keys' own mask says it, too."""
    if attn_mask is None or attn_mask.dtype != torch.bool:
        return attn_mask is None
    return attn_mask.shape[:-1] == (1,) or (attn_mask.dim() == 4 and attn_mask.shape[1:3] == (1, 1))


def _two(window_size: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(window_size, tuple | list) or len(window_size) != 2:
        raise TypeError(
            f"window_size is a pair (left, right); got {window_size}. For a causal window of w tokens, the "
            f"token itself among them, use (w - 1, 0)"
        )
    left, right = window_size
    return whole("left", left), whole("right", right)


class SlidingWindowAttention(SelfAttention):
    """Self-attention in which every position reads its neighbours only.

        head_h = sliding_window_attention(x W_h^Q, x W_h^K, x W_h^V, window_size)

    Args:
        embed_dim, num_heads: as in `attncourse.layers.MultiHeadAttention`.
        window_size: (left, right); or one number w for |i - j| <= w / 2: w // 2 neighbours on each side, so
            w + 1 keys if w is even and w if it is odd.
        options: of `attncourse.layers.MultiHeadAttention`, as ``num_kv_heads``.

    With ``is_causal`` only the left neighbours remain. An ``attn_mask`` is joined with the window; with one that is
    more than padding, and with ``need_weights``, all n n pairs are computed. `decode` needs a
    `attncourse.variants.rolling.RollingKVCache`.

    Raises:
        ValueError: a negative number of neighbours, or what `MultiHeadAttention` refuses.
        TypeError: numbers that are not whole.

    Reduces to: `attncourse.layers.SelfAttention` when the window holds the whole sequence.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """

    one_sequence = "neighbours are those of one sequence"

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
        offset: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The blocks; or the window as a mask, when all weights are wanted or forbidden one by one."""
        left, right = pair(self.window_size)
        window = (left, 0 if is_causal else right)
        if need_weights or not padding_alone(attn_mask):
            visible = joined(sliding_window(*window), q, k, attn_mask, offset)
            return super().attend(q, k, v, visible, need_weights=need_weights)
        shared = self.num_kv_heads < self.num_heads
        options: dict[str, Any] = {"enable_gqa": shared, "offset": offset, "key_mask": attn_mask}
        return sliding_window_attention(q, k, v, window, dropout_p=self.dropout_p, **options), None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window_size={self.window_size}"
