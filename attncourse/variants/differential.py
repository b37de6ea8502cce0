"""Differential attention: two maps of a pair of heads, the second of which is subtracted from the first."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.cache import KVCache, decodes
from attncourse.layers import MultiHeadAttention, merge_heads
from attncourse.positions import rotary
from attncourse.steps import add_causal, mask, mix, normalize, score


def differential_attention(
    query: Float[Tensor, "b heads n d"],
    key: Float[Tensor, "b heads m d"],
    value: Float[Tensor, "b h m e"],
    lam: float | Float[Tensor, ""],
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """What both maps of a pair read is taken out of what the first one reads.

        weights = softmax(scale * query_1 key_1^T) - lam * softmax(scale * query_2 key_2^T)
        output = weights value

    Args:
        query, key: 2 h heads; heads 2 p and 2 p + 1 are pair p, the second of them is subtracted.
        value: one head for each pair.
        lam: the factor of what is subtracted, a number or a tensor without axes.
        attn_mask, is_causal: as in `attncourse.steps.scaled_dot_product_attention`; h is the number of pairs.
        scale: ``None`` means 1 / sqrt(d).

    Returns: output and weights. Weights may be negative, and each row sums to 1 - lam.

    Raises:
        ValueError: query or key has not two heads for each of value's.

    Cost: 2 n m (2 d + e) FLOPs for each pair: of standard attention with h heads if their width is e = 2 d.
    Reduces to: `attncourse.steps.attention` with the first head of each pair when lam = 0.
    Source: ye2024, eq. 1; the order of the heads is that of the code that was published with it.
    Chapter: 17_multi_token.
    """
    pairs = value.size(1)
    if not query.size(1) == key.size(1) == 2 * pairs:
        raise ValueError(
            f"query and key need two heads for each of value's {pairs}; got {query.size(1)} and {key.size(1)}"
        )
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device)
    first, second = (
        normalize(mask(score(query[:, k::2], key[:, k::2], scale), attn_mask)) for k in (0, 1)
    )
    weights = first - lam * second
    return mix(weights, value), weights


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
        bias: add a bias in all four projections.

    Raises:
        ValueError: embed_dim is not a multiple of 2 num_heads.

    Cost: 3 embed_dim / num_heads parameters more than `MultiHeadAttention`: four vectors of half a head's width
        and the weight of the norm, which the heads share. Where nobody asks for the weights, torch's fused function
        reads each half of the values with all 2 num_heads heads, and no n m numbers are stored.
    Reduces to: `MultiHeadAttention` with half as wide queries and keys, and a norm, when lam = 0.
    Source: ye2024, section 2.1.
    Chapter: 17_multi_token.
    """

    def __init__(self, embed_dim: int, num_heads: int, layer: int = 0, *, bias: bool = True):
        super().__init__(embed_dim, num_heads, bias=bias)
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
        positions: Int[Tensor, " n"] | None = None,
    ) -> tuple[
        Float[Tensor, "b heads n d"], Float[Tensor, "b heads m d"], Float[Tensor, "b h m e"]
    ]:
        """Queries and keys of both heads of each pair, turned if there are positions, and values."""
        q, k, v = super().project(query, key, value)
        q, k = apart(q), apart(k)
        if positions is not None:
            q, k = rotary(q, positions), rotary(k, positions)
        return q, k, v

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        weights = None
        if need_weights:
            heads, weights = differential_attention(
                q, k, v, self.lam(), attn_mask=attn_mask, is_causal=is_causal
            )
        else:
            heads = self._fused(q, k, v, attn_mask, is_causal)
        return (1 - self.lambda_init) * self.norm(heads), weights

    def _fused(self, q, k, v, attn_mask, is_causal):
        """What is read is linear in the weights, so outputs can be subtracted, and no table need be there."""
        if attn_mask is not None and attn_mask.dim() == 4 and attn_mask.size(1) > 1:
            attn_mask = attn_mask.repeat_interleave(2, dim=1)
        # Fused functions want values as wide as the keys: one half after the other.
        attend = super().attend
        halves = (half.repeat_interleave(2, dim=1) for half in v.chunk(2, dim=-1))
        read = [attend(q, k, half, attn_mask, is_causal, False)[0] for half in halves]
        both = torch.cat(read, dim=-1)
        return both[:, ::2] - self.lam() * both[:, 1::2]


def apart(x: Float[Tensor, "b h n e"]) -> Float[Tensor, "b heads n d"]:
    """The two halves of each head as two heads. Cost: a copy."""
    return x.unflatten(-1, (2, -1)).transpose(2, 3).flatten(1, 2)


def together(x: Float[Tensor, "b heads n d"]) -> Float[Tensor, "b h n e"]:
    """Undo `apart`. Cost: a copy."""
    return x.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3)


@decodes(DifferentialAttention)
def _(layer: DifferentialAttention, x, cache, *, use_rotary: bool = False):
    """The two keys of a pair lie side by side in a `KVCache`, which is as large as that of `MultiHeadAttention`."""
    if type(cache) is not KVCache:
        raise TypeError(f"DifferentialAttention decodes with a KVCache; got {type(cache).__name__}")
    positions = cache.positions(x.size(1)) if use_rotary else None
    query, key, value = layer.project(x, x, x, positions)
    keys, values = cache.append(together(key), value)
    n, m = query.size(2), keys.size(2)
    visible = add_causal(None, m, m, x.device)[m - n :]
    heads, _ = layer.attend(query, apart(keys), values, attn_mask=visible)
    return layer.out_proj(merge_heads(heads))
