"""A window with gaps: as many keys as a window has, further apart, so that it reaches further."""

from torch import Tensor

from attncourse.layers import SelfAttention
from attncourse.masks import dilated
from attncourse.variants.window import joined, pair


class DilatedAttention(SelfAttention):
    """Self-attention in which every position reads each ``step``-th of its neighbours.

        visible(i, j) = j - i is one of -left step, ..., -step, 0, step, ..., right step

    Layers that all have one step never bring together what lies at even and at odd distances, if it is 2; in
    the source only some heads have gaps, and the steps differ.

    Args:
        embed_dim, num_heads, options: as in `attncourse.layers.MultiHeadAttention`.
        window_size: (left, right), keys that are read on each side; or one number w for w // 2 on each.
        step: distance from one key to the next, 1 or more.

    Raises:
        ValueError: a negative number of keys, a step below 1, or what `MultiHeadAttention` refuses.

    Cost: all n n pairs are computed, and most are hidden.
    Reduces to: `attncourse.variants.window.SlidingWindowAttention` when step = 1.
    Source: beltagy2020, section 3.1.
    Chapter: 13_sliding_window.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window_size: int | tuple[int, int],
        step: int = 2,
        **options,
    ):
        super().__init__(embed_dim, num_heads, **options)
        self.window_size, self.step = pair(window_size), step
        dilated(*self.window_size, step)  # it says what is wrong with the numbers

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        left, right = self.window_size
        rule = dilated(left, 0 if is_causal else right, self.step)
        return super().attend(q, k, v, joined(rule, q, k, attn_mask), need_weights=need_weights)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window_size={self.window_size}, step={self.step}"
