"""Talking heads: the heads tell each other their scores before the softmax, and their weights behind it."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.decoding import decode_by_attend, decodes
from attncourse.interface import check_sequences
from attncourse.layers import MultiHeadAttention
from attncourse.steps import add_causal, fold_heads, mask, mix, normalize, score, unfold_heads


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
    dropout_p: float = 0.0,
    offset: int = 0,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """Attention whose heads are mixed twice: their scores before the softmax, their weights behind it.

        weights(h) = sum_g after(h, g) softmax_j(sum_f before(g, f) score(f))

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        before: mixes scores. The mask comes after it.
        after: mixes weights, whose rows then sum to the sums of its rows, not to 1.
        attn_mask, is_causal, scale, dropout_p: as in `attncourse.steps.scaled_dot_product_attention`; dropped are
            the mixed weights.
        offset: position of query 0 among the keys, for ``is_causal``.

    Returns: output, and the weights that made it.

    Raises:
        ValueError: shapes that do not fit. TypeError: an integer mask.

    Cost: 4 h^2 n m FLOPs more than `attncourse.steps.attention`; shared keys and values are not repeated.
    Reduces to: `attncourse.steps.attention` when both matrices are the identity.
    Source: shazeer2020b.
    Chapter: 17_multi_token.
    """
    check_sequences(query, key, value, shared_heads=True)
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device, offset)
    h, g = query.size(1), key.size(1)
    scores = mix_heads(unfold_heads(score(fold_heads(query, g), key, scale), h), before)
    weights = mix_heads(normalize(mask(scores, attn_mask)), after)
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return unfold_heads(mix(fold_heads(weights, g), value), h), weights


class TalkingHeadsAttention(MultiHeadAttention):
    """Multi-head attention whose heads learn to mix their scores and their weights; at the start each keeps its own.

        heads = talking_heads_attention(query W^Q, key W^K, value W^V, before, after)

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`.

    Raises:
        ValueError: what `MultiHeadAttention` refuses.

    Cost: 2 num_heads^2 parameters more than `MultiHeadAttention`; torch has no fused version, so the n m weights
        are stored.
    Reduces to: `MultiHeadAttention` as long as both matrices are the identity, as they start.
    Source: shazeer2020b.
    Chapter: 17_multi_token.
    """

    def __init__(self, embed_dim: int, num_heads: int, **options):
        super().__init__(embed_dim, num_heads, **options)
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
        offset: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        inputs = q, k, v, self.before, self.after
        options: dict[str, Any] = {"attn_mask": attn_mask, "is_causal": is_causal, "offset": offset}
        return talking_heads_attention(*inputs, dropout_p=self.dropout_p, **options)


decodes(TalkingHeadsAttention)(decode_by_attend)
