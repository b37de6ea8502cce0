"""Three ways for a head to read nothing: a learned sink, one more in the denominator, a gate behind it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.cache import KVCache, decodes
from attncourse.layers import MultiHeadAttention, merge_heads
from attncourse.steps import add_causal, mask, mix, repeat_heads, score


def softmax_with_sink(
    scores: Float[Tensor, "b h n m"], sink: Float[Tensor, " h"]
) -> Float[Tensor, "b h n m"]:
    """The softmax over the keys and one more, which takes weight and has no value.

        weight(i, j) = exp(score(i, j)) / (exp(sink(h)) + sum_k exp(score(i, k)))

    What a row lacks to 1 went into the sink. A row that may read nothing is 0, without a special case.

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
    exponentials = torch.exp(scores - largest)
    return exponentials / (torch.exp(sink - largest) + exponentials.sum(dim=-1, keepdim=True))


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
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """Attention whose fourth step is `softmax_with_sink`: a head may read little, or nothing.

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        sink: one score a head, usually learned; 0 for all is softmax-off-by-one.
        attn_mask, is_causal, scale: as in `attncourse.steps.scaled_dot_product_attention`.

    Returns: output and weights, whose rows sum to less than 1.

    Cost: as `attncourse.steps.attention`.
    Reduces to: `attncourse.steps.attention` when sink = -inf.
    Source: openai2025.
    Chapter: 15_sinks.
    """
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device)
    weights = softmax_with_sink(mask(score(query, key, scale), attn_mask), sink)
    return mix(weights, value), weights


class SinkAttention(MultiHeadAttention):
    """Multi-head attention with one learned sink a head.

        head_h = sink_attention(query W_h^Q, key W_g^K, value W_g^V, sink_h)

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`, without dropout.
        learned: ``False`` keeps all sinks at 0: softmax-off-by-one.

    Raises:
        ValueError: dropout, or what `MultiHeadAttention` refuses.

    Cost: num_heads parameters more than `MultiHeadAttention`.
    Reduces to: `MultiHeadAttention` when all sinks are minus infinity.
    Source: openai2025; miller2023 for sinks that stay 0.
    Chapter: 15_sinks.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, learned: bool = True, **options):
        super().__init__(embed_dim, num_heads, **options)
        if self.dropout:
            raise ValueError(f"SinkAttention has no dropout; got {self.dropout}, leave it at 0")
        self.sink = nn.Parameter(torch.zeros(num_heads), requires_grad=learned)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        return sink_attention(q, k, v, self.sink, attn_mask=attn_mask, is_causal=is_causal)


class GatedAttention(MultiHeadAttention):
    """Self-attention whose result passes a gate that the query's own token opens or shuts.

        output = (concat(head_0, ..., head_{H-1}) * sigmoid(x W^G)) W^O

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

    def forward(
        self,
        x: Float[Tensor, "b n width"],
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        positions: Int[Tensor, " n"] | None = None,
    ):
        """As `MultiHeadAttention.forward` for one sequence: the output, or (output, weights)."""
        self._check_inputs(x, x, x)
        q, k, v = self.project(x, x, x, positions)
        heads, weights = self.attend(q, k, v, attn_mask, is_causal, need_weights)
        out = self.let_through(heads, x)
        return (out, weights) if need_weights else out

    def let_through(
        self, heads: Float[Tensor, "b h n d"], x: Float[Tensor, "b n width"]
    ) -> Float[Tensor, "b n width"]:
        """What the heads found, gated feature by feature, and through the last matrix."""
        return self.out_proj(merge_heads(heads) * torch.sigmoid(self.gate_proj(x)))


@decodes(GatedAttention)
def _(layer: GatedAttention, x, cache, *, use_rotary: bool = False):
    """The gate looks at the new tokens only, so nothing of it is cached."""
    query, key, value = layer.project(x, x, x)
    return layer.let_through(cache.attend(query, key, value, use_rotary), x)


@decodes(SinkAttention)
def _(layer: SinkAttention, x, cache, *, use_rotary: bool = False):
    """A learned sink is no token, so nothing of it is cached. Needs a `KVCache`, which keeps every token."""
    if type(cache) is not KVCache:
        raise TypeError(f"SinkAttention decodes with a KVCache; got {type(cache).__name__}")
    positions = cache.positions(x.size(1)) if use_rotary else None
    query, key, value = layer.project(x, x, x, positions)
    key, value = cache.append(key, value)
    n, m = query.size(2), key.size(2)
    visible = add_causal(None, m, m, x.device)[m - n :]
    heads, _ = sink_attention(query, key, value, layer.sink, attn_mask=visible)
    return layer.out_proj(merge_heads(heads))
