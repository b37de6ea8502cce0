"""Talking heads: the heads tell each other their scores before the softmax, and their weights behind it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.layers import SelfAttention
from attncourse.steps import add_causal, mask, mix, normalize, repeat_heads, score


def mix_heads(
    table: Float[Tensor, "b g n m"], matrix: Float[Tensor, "h g"]
) -> Float[Tensor, "b h n m"]:
    """The tables of all heads, each replaced by a mixture of them, pair by pair.

        mixed(h, i, j) = sum_g matrix(h, g) table(g, i, j)

    Args:
        table: scores or weights. No minus infinity: 0 times it is NaN, so a mask comes later.
        matrix: row h holds what head h takes from whom.

    Cost: 2 h^2 n m FLOPs.
    Reduces to: `table` when the matrix is the identity.
    Source: shazeer2020b.
    Chapter: 17_multi_token.
    """
    return torch.einsum("hg,bgnm->bhnm", matrix, table)


def talking_heads_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    before: Float[Tensor, "h h"],
    after: Float[Tensor, "h h"],
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """Attention whose heads are mixed twice: their scores before the softmax, their weights behind it.

        weights(h) = sum_g after(h, g) softmax_j(sum_f before(g, f) score(f))

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        before: mixes scores. The mask comes after it.
        after: mixes weights, whose rows then sum to the sums of its rows, not to 1.
        attn_mask, is_causal, scale: as in `attncourse.steps.scaled_dot_product_attention`.

    Returns: output, and the weights that made it.

    Cost: 4 h^2 n m FLOPs more than `attncourse.steps.attention`.
    Reduces to: `attncourse.steps.attention` when both matrices are the identity.
    Source: shazeer2020b.
    Chapter: 17_multi_token.
    """
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device)
    scores = mix_heads(score(query, key, scale), before)
    weights = mix_heads(normalize(mask(scores, attn_mask)), after)
    return mix(weights, value), weights


class TalkingHeadsAttention(SelfAttention):
    """Self-attention whose heads learn to mix their scores and their weights; at the start each keeps its own.

        heads = talking_heads_attention(x W^Q, x W^K, x W^V, before, after)

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`, without dropout.

    Raises:
        ValueError: dropout, or what `MultiHeadAttention` refuses.

    Cost: 2 num_heads^2 parameters more than `MultiHeadAttention`; torch has no fused version, so the n m weights
        are stored.
    Reduces to: `SelfAttention` as long as both matrices are the identity, as they start.
    Source: shazeer2020b.
    Chapter: 17_multi_token.
    """

    def __init__(self, embed_dim: int, num_heads: int, **options):
        super().__init__(embed_dim, num_heads, **options)
        if self.dropout:
            raise ValueError(
                f"TalkingHeadsAttention has no dropout; got {self.dropout}, leave it at 0"
            )
        self.before = nn.Parameter(torch.eye(num_heads))
        self.after = nn.Parameter(torch.eye(num_heads))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        return talking_heads_attention(
            q, k, v, self.before, self.after, attn_mask=attn_mask, is_causal=is_causal
        )
