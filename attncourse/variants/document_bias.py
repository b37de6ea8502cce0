"""A bias over distances in which each head sets how strong it is: alpha R(i - j) + beta."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.decoding import decode_by_attend, decodes
from attncourse.layers import SelfAttention
from attncourse.steps import add_causal, mask


class DocumentBiasAttention(SelfAttention):
    """Self-attention with one bias for all heads, which each head makes stronger or weaker.

        score(i, j) -> score(i, j) + alpha_h R(clip(i - j, -span, span) + span) + beta_h

    R is a table over i - j, of numbers. It looks at no content, and beta is a constant in every row, which the
    softmax ignores: no gradient ever moves it.

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`.
        span: distances beyond share the ends of the table.

    Raises:
        ValueError: another sequence as key, to which there is no distance, or what `MultiHeadAttention` refuses.

    Cost: 2 span + 1 + 2 num_heads parameters more than `MultiHeadAttention`, and num_heads n m numbers of bias,
        which torch's fused function adds.
    Reduces to: `SelfAttention` when R = 0, as it starts; `attncourse.scores.relative_bias` when alpha = 1.
    Chapter: 16_disentangled.
    """

    one_sequence = "a distance from one sequence to another has no meaning"

    def __init__(self, embed_dim: int, num_heads: int, span: int, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.table = nn.Parameter(torch.zeros(2 * span + 1))
        self.alpha = nn.Parameter(torch.ones(num_heads))
        self.beta = nn.Parameter(torch.zeros(num_heads))

    def bias(self, n: int, m: int, offset: int = 0) -> Float[Tensor, "h n m"]:
        """What is added to the scores of n queries, the first of which stands at ``offset`` among the m keys."""
        span = self.table.size(0) // 2
        i, j = (torch.arange(size, device=self.table.device) for size in (n, m))
        of_distance = self.table[(offset + i[:, None] - j).clamp(-span, span) + span]
        return self.alpha[:, None, None] * of_distance + self.beta[:, None, None]

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
        n, m = q.size(2), k.size(2)
        if is_causal:
            attn_mask = add_causal(attn_mask, n, m, q.device, offset)
        batch = 1 if attn_mask is None or attn_mask.dim() == 2 else q.size(0)
        bias = self.bias(n, m, offset).to(q.dtype).expand(batch, -1, -1, -1)
        return super().attend(q, k, v, mask(bias, attn_mask), need_weights=need_weights)


decodes(DocumentBiasAttention)(decode_by_attend)
