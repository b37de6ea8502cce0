"""The delta rule: a token first reads what its key already says, and writes only the difference."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.layers import split_heads
from attncourse.precision import sums_in_float32, wide
from attncourse.variants.decays import (
    Decay,
    check_sequence,
    decayed_products,
    decays,
    next_state,
    padding,
    perhaps_resets,
    unread,
)
from attncourse.variants.gated import GatedLinearAttention


@sums_in_float32
def delta_rule(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    beta: Float[Tensor, "b h n"],
    *,
    log_decay: Decay | None = None,
    scale: float | None = None,
    key_mask: Bool[Tensor, "b *h n"] | None = None,
    state: Float[Tensor, "b h d e"] | None = None,
    return_state: bool = False,
    chunk: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Causal linear attention that corrects its state instead of only adding to it.

        faded(t)  = diag(exp(log_decay(t))) state(t-1)
        state(t)  = faded(t) + beta(t) key(t) (value(t) - faded(t)^T key(t))^T
        output(t) = scale * query(t) state(t)

    With a key of length 1 and beta = 1 the state says value(t) at key(t) afterwards, whatever it said before.
    What the tokens of a chunk write depends on each other: a triangular system, solved at once. Token by token:
    `attncourse.spec.linear.state_space`.

    Args:
        query, key, value: of one sequence. The state stays bounded if keys have length 1 at most.
        beta: how much of the difference is written, 0 to 1 (up to 2 for keys of length 1).
        log_decay: as in `attncourse.variants.gated.gated_linear_attention`; ``None`` means 0, no decay.
        scale, key_mask, state, return_state, chunk: as there.

    Raises:
        ValueError: a chunk below 1, or shapes that do not fit.

    Cost: 4 n d e + n chunk (4 d + 3 e) FLOPs per head. With a decay for each channel, chunk^2 d numbers.
    Reduces to: nothing read and nothing written when beta = 0.
    Source: yang2024delta for the chunks; yang2025 with a decay for each head, zhang2025 for each channel.
    Chapter: 19_gated_delta.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    log_decay = torch.zeros_like(beta) if log_decay is None else log_decay
    hidden = padding(key_mask, key)
    key, log_decay = unread(hidden, key, log_decay)
    log_decay, state, chunk = check_sequence(query, key, value, log_decay, state, chunk)
    if beta.shape != query.shape[:3]:
        raise ValueError(
            f"beta must be {tuple(query.shape[:3])}; got {tuple(beta.shape)}; .expand it"
        )
    resets = perhaps_resets(log_decay)
    outputs = []
    whole = (query * scale, key, value, log_decay, beta[..., None])
    for q, k, v, g, b in zip(*(x.split(chunk, dim=2) for x in whole), strict=True):
        decay = decays(g, resets)
        read, agree = decayed_products(k, decay.between, q, k)
        alone = v - (k * decay.since) @ state  # as if the chunk's tokens did not know each other
        written = solve(agree, b, b * alone)
        outputs.append((q * decay.since) @ state + read @ written)
        state = next_state(k, written, decay, state)
    output = torch.cat(outputs, dim=2)
    return (output, state) if return_state else output


def solve(
    agree: Float[Tensor, "b h c c"],
    beta: Float[Tensor, "b h c 1"],
    alone: Float[Tensor, "b h c e"],
) -> Float[Tensor, "b h c e"]:
    """What each token writes, once what the earlier ones of the chunk wrote at its key is taken off.

        written(i) = alone(i) - beta(i) sum_{j < i} agree(i, j) written(j)

    Args:
        agree: products of the keys of the chunk, faded, from `attncourse.variants.decays.decayed_products`.

    Source: yang2024delta; there the product of the steps is kept as two matrices, the WY form.
    """
    system = (beta * agree).tril(-1)
    return torch.linalg.solve_triangular(system, alone, upper=False, unitriangular=True)


@sums_in_float32
def delta_weights(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    beta: Float[Tensor, "b h n"],
    log_decay: Decay,
    *,
    key_mask: Bool[Tensor, "b *h n"] | None = None,
) -> Float[Tensor, "b h n n"]:
    """What each value counts in `delta_rule`: the table that it never makes. Cost: n^2 numbers a channel."""
    key, log_decay = unread(padding(key_mask, key), key, log_decay)
    log_decay = log_decay[..., None] if log_decay.dim() == 3 else log_decay
    between = decays(log_decay).between
    read, agree = decayed_products(key, between, query / math.sqrt(query.size(-1)), key)
    return read @ solve(agree, beta[..., None], torch.diag_embed(beta))


class GatedDeltaAttention(GatedLinearAttention):
    """Causal multi-head attention by the delta rule, with a decay.

        beta = sigmoid(x W^B)      log_decay = -exp(a_h) softplus(x W^G + b)
        head_h = norm(delta_rule(q / |q|, k / |k|, v, beta_h, log_decay_h))

    It starts with a = 0 and b = -4: a token keeps 0.98 of the state.

    Args:
        embed_dim, num_heads, options: as in `GatedLinearAttention`.
        per_channel: a decay for each channel of the key, as Kimi Linear has; ``False``: one for each head, as
            Qwen3-Next has.

    Qwen3-Next: ``num_qk_heads=num_heads // 2, conv_size=4, gate="silu"``; Kimi Linear: ``per_channel=True, conv_size=4,
    gate="sigmoid"``, without the low rank of its decays and its gate.

    Source: yang2025; zhang2025.
    Chapter: 19_gated_delta.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, per_channel: bool = False, **options: Any
    ):
        super().__init__(embed_dim, num_heads, per_channel=per_channel, **options)
        self.beta_proj = nn.Linear(embed_dim, num_heads, bias=False)
        self.rate = nn.Parameter(torch.zeros(num_heads))
        # At 0 a token would halve the state, and training would hardly see what lies ten tokens back.
        nn.init.constant_(self.decay_proj.bias, -4.0)

    def with_gates(
        self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, positions: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Queries, keys, values, log-decays and betas of all heads."""
        q, k = self.turned(q, k, positions)
        beta = torch.sigmoid(self.beta_proj(x)).mT
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, self.log_decay(x), beta

    def log_decay(self, x: Tensor) -> Float[Tensor, "b h n"] | Float[Tensor, "b h n d"]:
        """Minus how fast the state fades at each token."""
        # softplus(y) = -log sigmoid(-y); torch's own is compiled to a backward pass that its "aot_eager" cannot run.
        faster = split_heads(-F.logsigmoid(-wide(self.decay_proj(x))), self.num_heads)
        log_decay = -self.rate.exp()[:, None, None] * faster
        return log_decay if log_decay.size(-1) > 1 else log_decay[..., 0]

    def attend(self, q, k, v, log_decay, beta, *, state, key_mask=None):
        """As in `GatedLinearAttention`."""
        options = {"state": state, "key_mask": key_mask, "chunk": self.chunk}
        return delta_rule(q, k, v, beta, log_decay=log_decay, return_state=True, **options)

    def weights(self, q, k, v, log_decay, beta, *, key_mask=None) -> Float[Tensor, "b h n n"]:
        """As in `GatedLinearAttention`."""
        return delta_weights(q, k, beta, log_decay, key_mask=key_mask)


class DeltaAttention(GatedDeltaAttention):
    """Causal multi-head attention by the delta rule, without a decay: what is not corrected stays for good.

        head_h = norm(delta_rule(q / |q|, k / |k|, v, sigmoid(x W^B)_h))

    Args:
        embed_dim, num_heads, options: as in `GatedDeltaAttention`, without ``per_channel``.

    Reduces to: `GatedDeltaAttention` whose decays are 1.
    Source: yang2024delta.
    Chapter: 19_gated_delta.
    """

    def __init__(self, embed_dim: int, num_heads: int, **options: Any):
        super().__init__(embed_dim, num_heads, per_channel=False, **options)
        del self.decay_proj, self.rate

    def log_decay(self, x: Tensor) -> Float[Tensor, "b h n"]:
        """0: nothing fades."""
        return x.new_zeros(x.size(0), self.num_heads, x.size(1))
