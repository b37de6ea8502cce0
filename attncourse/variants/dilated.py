"""A window with gaps: as many keys as a window has, further apart, so that it reaches further."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.decoding import decode_by_attend, decodes
from attncourse.interface import whole
from attncourse.layers import SelfAttention
from attncourse.masks import dilated
from attncourse.variants.flash import check_inputs
from attncourse.variants.window import (
    joined,
    of_every_sample,
    padding_alone,
    pair,
    sliding_window_attention,
)


def dilated_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    window_size: tuple[int, int],
    step: int,
    *,
    offset: int = 0,
    enable_gqa: bool = False,
    key_mask: Bool[Tensor, "*b m"] | None = None,
    **options,
) -> Float[Tensor, "b h n e"]:
    """A window in each of ``step`` sequences that stand interleaved in one: tokens of two of them never meet.

        output(i) = sum_j softmax_j(scale query(i) . key(j)) value(j)    j - i = -left step, ..., -step, 0, ..., right step

    Args:
        query, key, value, offset, enable_gqa, key_mask: as in `sliding_window_attention`.
        window_size: (left, right), keys that are read on each side.
        step: distance from one key to the next, 1 or more.
        options: scale and dropout_p, as there.

    Raises:
        TypeError: one number as the window, or numbers that are not whole.
        ValueError: a negative number of keys, a step below 1, or shapes that do not fit.

    Cost: as `sliding_window_attention`, and in training step times the memory of the gradients of key and value.
    Reduces to: `sliding_window_attention` when step = 1.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """
    dilated(0, 0, step)  # it says what is wrong with the number
    check_inputs(query, key, value, None, enable_gqa)
    n, real = query.size(2), of_every_sample(key_mask, key)
    outputs, order = [], []
    for start in range(step):
        first = (start - offset) % step  # of the queries at positions start, start + step, ...
        q, k, v = query[:, :, first::step], key[:, :, start::step], value[:, :, start::step]
        if first >= n:
            continue
        order.append(torch.arange(first, n, step, device=query.device))
        if start >= key.size(2):
            outputs.append(query.new_zeros(*q.shape[:3], value.size(3)))
            continue
        own = None if real is None else real[:, start::step]
        where: dict[str, Any] = {"offset": (first + offset) // step, "key_mask": own}
        where["enable_gqa"] = enable_gqa
        outputs.append(sliding_window_attention(q, k, v, window_size, **where, **options))
    return torch.cat(outputs, dim=2)[:, :, torch.cat(order).argsort()]


class DilatedAttention(SelfAttention):
    """Self-attention in which every position reads each ``step``-th of its neighbours.

        head_h = dilated_attention(x W_h^Q, x W_h^K, x W_h^V, window_size, step)

    Layers that all have one step never bring together what lies at even and at odd distances, if it is 2; in
    the source only some heads have gaps, and the steps differ.

    Args:
        embed_dim, num_heads, options: as in `attncourse.layers.MultiHeadAttention`.
        window_size: (left, right), keys that are read on each side; or one number w for w // 2 on each.
        step: distance from one key to the next, 1 or more.

    Raises:
        ValueError: a negative number of keys, a step below 1, or what `MultiHeadAttention` refuses.
        TypeError: numbers that are not whole.

    Cost: see `dilated_attention`; all n n pairs with ``need_weights``, or an ``attn_mask`` that is more than padding.
    Reduces to: `attncourse.variants.window.SlidingWindowAttention` when step = 1.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """

    one_sequence = "neighbours are those of one sequence"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window_size: int | tuple[int, int],
        step: int = 2,
        **options,
    ):
        super().__init__(embed_dim, num_heads, **options)
        self.window_size, self.step = pair(window_size), whole("step", step)
        dilated(*self.window_size, self.step)  # it says what is wrong with the numbers

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
        left, right = pair(self.window_size)
        window = left, 0 if is_causal else right
        if need_weights or not padding_alone(attn_mask):
            visible = joined(dilated(*window, self.step), q, k, attn_mask, offset)
            return super().attend(q, k, v, visible, need_weights=need_weights)
        options: dict[str, Any] = {"offset": offset, "key_mask": attn_mask}
        options["enable_gqa"] = self.num_kv_heads < self.num_heads
        options["dropout_p"] = self.dropout_p
        return dilated_attention(q, k, v, window, self.step, **options), None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window_size={self.window_size}, step={self.step}"


# With gaps the window reaches far back, so a cache keeps every token.
decodes(DilatedAttention)(decode_by_attend)
