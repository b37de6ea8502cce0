"""Differential attention: two maps of a pair of heads, the second of which is subtracted from the first."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.decoding import decode_by_attend, decodes
from attncourse.interface import check_sequences
from attncourse.layers import MultiHeadAttention
from attncourse.steps import add_causal, fold_heads, mask, mix, normalize, score, unfold_heads


def differential_attention(
    query: Float[Tensor, "b heads n d"],
    key: Float[Tensor, "b kv_heads m d"],
    value: Float[Tensor, "b g m e"],
    lam: float | Float[Tensor, ""],
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """What both maps of a pair read is taken out of what the first one reads.

        weights = softmax(scale * query_1 key_1^T) - lam * softmax(scale * query_2 key_2^T)
        output = weights value

    Args:
        query: 2 h heads; heads 2 p and 2 p + 1 are pair p, the second of them is subtracted.
        key, value: 2 g heads and g heads; query pair p reads key pair and value p // (h / g).
        lam: the factor of what is subtracted, a number or a tensor without axes.
        attn_mask, is_causal, dropout_p: as in `attncourse.steps.scaled_dot_product_attention`; h is the number of
            pairs, and what is dropped are the differences.
        scale: ``None`` means 1 / sqrt(d).
        offset: position of query 0 among the keys, for ``is_causal``.

    Returns: output and weights. Weights may be negative, and each row sums to 1 - lam.

    Raises:
        ValueError: key has not two heads for each of value's, or query not a multiple of them.

    Cost: 2 n m (2 d + e) FLOPs for each pair: of standard attention with h heads if their width is e = 2 d.
    Reduces to: `attncourse.steps.attention` with the first head of each pair when lam = 0.
    Source: ye2024, eq. 1; the order of the heads is that of the code that was published with it.
    Chapter: 17_multi_token.
    """
    h, g = query.size(1) // 2, value.size(1)
    if query.size(1) % 2 or key.size(1) != 2 * g:
        raise ValueError(
            f"query and key need two heads for each of value's {g}, or query a multiple of that; got "
            f"{query.size(1)} and {key.size(1)}. Cut each head in two halves"
        )
    check_sequences(query[:, ::2], key[:, ::2], value, shared_heads=True)
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device, offset)

    def weights_of(q, k):
        scores = unfold_heads(score(fold_heads(q, g), k, scale), h)
        return normalize(mask(scores, attn_mask))

    weights = weights_of(query[:, ::2], key[:, ::2]) - lam * weights_of(
        query[:, 1::2], key[:, 1::2]
    )
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return unfold_heads(mix(fold_heads(weights, g), value), h), weights


def lambda_init(layer: int) -> float:
    """How much a layer subtracts before training: 0.2 in layer 0, and more in later ones, up to 0.8.

        lambda_init(layer) = 0.8 - 0.6 exp(-0.3 layer)

    Args:
        layer: counted from 0.

    Source: ye2024, section 2.1, where the layers are counted from 1.
    Chapter: 17_multi_token.
    """
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


class DifferentialAttention(MultiHeadAttention):
    """Multi-head attention in which each head is a pair of half the width, and subtracts one map from the other.

        head_p = differential_attention(query W_p^Q, key W_p^K, value W_p^V, lam)
        lam = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init(layer)
        output = concat((1 - lambda_init(layer)) RMSNorm(head_0), ...) W^O

    Args:
        embed_dim: a multiple of 2 num_heads.
        num_heads: number of pairs, each of which has values of width embed_dim / num_heads and queries and keys
            of half of that.
        layer: where the layer stands in the model, counted from 0.
        options: of `MultiHeadAttention`, such as num_kv_heads: pairs of keys, each with one head of values.

    Raises:
        ValueError: embed_dim is not a multiple of 2 num_heads, or what `MultiHeadAttention` refuses.

    Cost: 3 embed_dim / num_heads parameters more than `MultiHeadAttention`: four vectors of half a head's width
        and the weight of the norm, which the heads share. Where nobody asks for the weights, torch's fused function
        reads each half of the values with all 2 num_heads heads, and no n m numbers are stored.
    Reduces to: `MultiHeadAttention` with half as wide queries and keys, and a norm, when lam = 0.
    Source: ye2024, section 2.1.
    Chapter: 17_multi_token.
    """

    def __init__(self, embed_dim: int, num_heads: int, layer: int = 0, **options):
        super().__init__(embed_dim, num_heads, **options)
        if embed_dim % (2 * num_heads):
            raise ValueError(
                f"embed_dim must be a multiple of 2 num_heads: each head is a pair; got embed_dim={embed_dim} "
                f"and num_heads={num_heads}"
            )
        width = embed_dim // num_heads
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(0.1 * torch.randn(width // 2)) for _ in range(4)
        )
        self.lambda_init = lambda_init(layer)
        self.norm = nn.RMSNorm(width, eps=1e-5)

    def lam(self) -> Float[Tensor, ""]:
        """The factor of what is subtracted, one for all heads of the layer."""
        first = torch.exp(self.lambda_q1 @ self.lambda_k1)
        second = torch.exp(self.lambda_q2 @ self.lambda_k2)
        return first - second + self.lambda_init

    def project(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        positions: Int[Tensor, "*b n"] | None = None,
    ) -> tuple[
        Float[Tensor, "b heads n d"], Float[Tensor, "b kv_heads m d"], Float[Tensor, "b g m e"]
    ]:
        """Queries and keys of both heads of each pair, turned if there are positions, and values."""
        q, k, v = super().project(query, key, value)
        q, k = apart(q), apart(k)
        if positions is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return q, k, v

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
        options: dict[str, Any] = {"attn_mask": attn_mask, "is_causal": is_causal, "offset": offset}
        weights = None
        # One query has a short table, and dropout needs one.
        if need_weights or self.dropout_p or q.size(2) == 1:
            inputs = q, k, v, self.lam()
            heads, weights = differential_attention(*inputs, dropout_p=self.dropout_p, **options)
        else:
            heads = self._fused(q, k, v, **options)
        return (1 - self.lambda_init) * normed(heads, self.norm), weights

    def _fused(self, q, k, v, **options):
        """What is read is linear in the weights, so outputs can be subtracted, and no table need be there."""
        attend = super().attend
        # Fused functions want values as wide as the keys: one half after the other.
        first, second = (
            torch.cat(
                [attend(q[:, c::2], k[:, c::2], half, **options)[0] for half in v.chunk(2, -1)], -1
            )
            for c in (0, 1)
        )
        return first - self.lam() * second

    def cached(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Two narrow keys and one value for each pair: as many numbers as `MultiHeadAttention` keeps."""
        g, width = self.num_kv_heads, self.head_dim
        return (2 * g, width // 2), (g, width)


def normed(heads: Float[Tensor, "b h n e"], norm: nn.RMSNorm) -> Float[Tensor, "b h n e"]:
    """What each head read, made equally large. In half precision, as under autocast, in the dtype of the weight."""
    return norm(heads.to(norm.weight.dtype)).to(heads.dtype)


def apart(x: Float[Tensor, "b h n e"]) -> Float[Tensor, "b heads n d"]:
    """The two halves of each head as two heads. Cost: a copy."""
    return x.unflatten(-1, (2, -1)).transpose(2, 3).flatten(1, 2)


decodes(DifferentialAttention)(decode_by_attend)
