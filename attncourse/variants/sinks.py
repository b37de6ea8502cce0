"""Three ways for a head to read nothing: a learned sink, one more in the denominator, a gate behind it."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.decoding import decode_by_attend, decodes
from attncourse.interface import check_sequences
from attncourse.layers import MultiHeadAttention, merge_heads
from attncourse.steps import add_causal, fold_heads, mask, mix, score, unfold_heads


def softmax_with_sink(
    scores: Float[Tensor, "b h n m"], sink: Float[Tensor, " h"]
) -> Float[Tensor, "b h n m"]:
    """The softmax over the keys and one more, which takes weight and has no value.

        weight(i, j) = exp(score(i, j)) / (exp(sink(h)) + sum_k exp(score(i, k)))

    What a row lacks to 1 went into the sink. A row that may read nothing is 0, whether its sink is open or closed.

    Args:
        scores: minus infinity where a pair is forbidden.
        sink: one score a head; minus infinity closes it.

    Cost: as the softmax.
    Reduces to: softmax when sink = -inf, `softmax_off_by_one` when sink = 0; softmax(scores) times
        sigmoid(logsumexp(scores) - sink) always.
    Source: openai2025.
    Chapter: 15_sinks.
    """
    sink = sink[:, None, None]
    # The largest is taken out of all, the sink too: nothing overflows, and the fraction stays the same.
    largest = torch.maximum(scores.amax(dim=-1, keepdim=True), sink).detach()
    largest = largest.masked_fill(largest == -math.inf, 0.0)  # nothing to read, and no sink
    exponentials = torch.exp(scores - largest)
    total = torch.exp(sink - largest) + exponentials.sum(dim=-1, keepdim=True)
    weights = exponentials / total.masked_fill(total == 0, 1.0)
    return weights.to(scores.dtype)


def softmax_off_by_one(scores: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n m"]:
    """The softmax with 1 added to its denominator, so that small scores need not read anything.

        weight(i, j) = exp(score(i, j)) / (1 + sum_k exp(score(i, k)))

    Cost: as the softmax.
    Reduces to: `softmax_with_sink` when sink = 0.
    Source: miller2023.
    Chapter: 15_sinks.
    """
    return softmax_with_sink(scores, scores.new_zeros(scores.size(1)))


def sink_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    sink: Float[Tensor, " h"],
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """Attention whose fourth step is `softmax_with_sink`: a head may read little, or nothing.

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        sink: one score a head, usually learned; 0 for all is softmax-off-by-one.
        attn_mask, is_causal, scale, dropout_p: as in `attncourse.steps.scaled_dot_product_attention`.
        offset: position of query 0 among the keys, for ``is_causal``.

    Returns: output and weights, whose rows sum to less than 1.

    Raises:
        ValueError: shapes that do not fit. TypeError: an integer mask.

    Cost: as `attncourse.steps.attention`; shared keys and values are not repeated.
    Reduces to: `attncourse.steps.attention` when sink = -inf.
    Source: openai2025.
    Chapter: 15_sinks.
    """
    check_sequences(query, key, value, shared_heads=True)
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device, offset)
    h, g = query.size(1), key.size(1)
    scores = unfold_heads(score(fold_heads(query, g), key, scale), h)
    weights = softmax_with_sink(mask(scores, attn_mask), sink)
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return unfold_heads(mix(fold_heads(weights, g), value), h), weights


class SinkAttention(MultiHeadAttention):
    """Multi-head attention with one learned sink a head.

        head_h = sink_attention(query W_h^Q, key W_g^K, value W_g^V, sink_h)

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`.
        learned: ``False`` keeps all sinks at 0: softmax-off-by-one.

    Raises:
        ValueError: what `MultiHeadAttention` refuses.

    Cost: num_heads parameters more than `MultiHeadAttention`.
    Reduces to: `MultiHeadAttention` when all sinks are minus infinity.
    Source: openai2025; miller2023 for sinks that stay 0.
    Chapter: 15_sinks.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, learned: bool = True, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.sink = nn.Parameter(torch.zeros(num_heads), requires_grad=learned)

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
        return sink_attention(
            q,
            k,
            v,
            self.sink,
            attn_mask=attn_mask,
            is_causal=is_causal,
            dropout_p=self.dropout_p,
            offset=offset,
        )


# A learned sink is no token, so nothing of it is cached.
decodes(SinkAttention)(decode_by_attend)


class GatedAttention(MultiHeadAttention):
    """Multi-head attention whose result passes a gate that the query's own token opens or shuts.

        output = (concat(head_0, ..., head_{H-1}) * sigmoid(query W^G)) W^O

    A softmax must read something; a gate of 0 lets the token ignore what was read.

    Args: as in `MultiHeadAttention`.

    Cost: embed_dim^2 parameters and 2 n embed_dim^2 FLOPs more than `MultiHeadAttention`.
    Reduces to: `MultiHeadAttention` when the gates are 1.
    Source: qiu2025; behind the attention, one gate a feature.
    Chapter: 15_sinks.
    """

    def __init__(self, embed_dim: int, num_heads: int, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.gate_proj = nn.Linear(embed_dim, embed_dim, self.out_proj.bias is not None)

    def join(
        self, heads: Float[Tensor, "b h n d"], query: Float[Tensor, "b n width"]
    ) -> Float[Tensor, "b n width"]:
        """What the heads found, gated feature by feature, and through the last matrix."""
        return self.out_proj(merge_heads(heads) * torch.sigmoid(self.gate_proj(query)))
