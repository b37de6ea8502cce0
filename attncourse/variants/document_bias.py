"""A bias over distances in which each head sets how strong it is: alpha R(i - j) + beta."""

import torch
from torch import Tensor, nn

from attncourse.layers import SelfAttention
from attncourse.scores import relative_bias
from attncourse.steps import add_causal, attention


class DocumentBiasAttention(SelfAttention):
    """Self-attention with one bias for all heads, which each head makes stronger or weaker.

        score(i, j) -> score(i, j) + alpha_h R(clip(i - j, -span, span) + span) + beta_h

    R is a table over i - j, of numbers. It looks at no content, and beta is a constant in every row, which the
    softmax ignores: no gradient ever moves it.

    Args:
        embed_dim, num_heads, bias: as in `MultiHeadAttention`.
        span: distances beyond share the ends of the table.

    Cost: 2 span + 1 + 2 num_heads parameters more than `MultiHeadAttention`.
    Reduces to: `SelfAttention` when R = 0, as it starts; `attncourse.scores.relative_bias` when alpha = 1.
    Chapter: 16_disentangled.
    """

    def __init__(self, embed_dim: int, num_heads: int, span: int, *, bias: bool = True):
        super().__init__(embed_dim, num_heads, bias=bias)
        self.table = nn.Parameter(torch.zeros(2 * span + 1))
        self.alpha = nn.Parameter(torch.ones(num_heads))
        self.beta = nn.Parameter(torch.zeros(num_heads))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal:
            attn_mask = add_causal(attn_mask, q.size(2), k.size(2), q.device)
        of_head = relative_bias(self.alpha[:, None] * self.table + self.beta[:, None])
        return attention(q, k, v, attn_mask=attn_mask, score_mod=of_head)
