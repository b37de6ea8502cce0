"""Linear attention that forgets: before each token is added, the state decays."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.decoding import decodes
from attncourse.interface import check_divisible, check_inputs, key_mask, refuse
from attncourse.layers import merge_heads, split_heads
from attncourse.positions import rotary
from attncourse.precision import sums_in_float32, wide
from attncourse.steps import repeat_heads
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
from attncourse.variants.decays import decay_between as decay_between  # and from here, too
from attncourse.variants.decays import retention_decay as retention_decay
from attncourse.variants.short_convolution import ShortConvolution
from attncourse.variants.state_cache import LinearCache, State, decode_with_state

ONE_SEQUENCE = "a state is read in order, so queries, keys and values are of one sequence"
GATES: dict[str | None, Callable[[Tensor], Tensor]]
GATES = {None: nn.Identity(), "silu": F.silu, "sigmoid": torch.sigmoid}


@sums_in_float32
def gated_linear_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    log_decay: Decay,
    *,
    scale: float | None = None,
    key_mask: Bool[Tensor, "b *h n"] | None = None,
    state: Float[Tensor, "b h d e"] | None = None,
    return_state: bool = False,
    chunk: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Causal linear attention whose state fades, by a factor that each token may choose.

        state(t)  = diag(exp(log_decay(t))) state(t-1)  +  key(t) value(t)^T
        output(t) = scale * query(t) state(t)

    A token that was read s steps ago counts by the product of the decays since. Tokens are read ``chunk`` at a
    time: what came before from the state, what stands inside a chunk by `decayed_products`.

    Args:
        query, key, value: of one sequence; there is no softmax and no feature map.
        log_decay: logarithm of the factor, at most 0: one for each token and head, or one for each channel
            of the key as well. 0 keeps everything; minus infinity forgets everything, as where a document begins.
        scale: factor on the products; ``None`` means 1 / sqrt(d).
        key_mask: ``False`` where a token is padding, (b, n) or (b, h, n): it leaves the state as it is.
        state: of all that was read before, from ``return_state``.
        return_state: return (output, state), the state in float32 at least.
        chunk: tokens a step; the result does not depend on it. ``None`` means 64, and 16 with a decay for each channel.

    Raises:
        ValueError: a chunk below 1, or shapes that do not fit.

    Cost: 4 n d e + 2 n chunk (d + e) FLOPs per head. With a decay for each channel, chunk^2 d numbers. What is compiled or
        exported has its chunks one after the other in it, so it grows with n, and is exported for one number of them.
    Reduces to: `attncourse.variants.linear.linear_attention`, causal, with products as features and not
        normalized, times scale, when log_decay = 0.
    Source: yang2024gla; sun2023 for decays that are constant.
    Chapter: 19_gated_delta.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    hidden = padding(key_mask, key)
    key, log_decay = unread(hidden, key, log_decay)
    log_decay, state, chunk = check_sequence(query, key, value, log_decay, state, chunk)
    resets = perhaps_resets(log_decay)
    outputs = []
    for q, k, v, g in zip(
        *(x.split(chunk, dim=2) for x in (query * scale, key, value, log_decay)), strict=True
    ):
        decay = decays(g, resets)
        (products,) = decayed_products(k, decay.between, q)
        outputs.append((q * decay.since) @ state + products @ v)
        state = next_state(k, v, decay, state)
    output = torch.cat(outputs, dim=2)
    return (output, state) if return_state else output


@sums_in_float32
def gated_weights(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    log_decay: Decay,
    *,
    key_mask: Bool[Tensor, "b *h n"] | None = None,
) -> Float[Tensor, "b h n n"]:
    """What each value counts in `gated_linear_attention`: the table that it never makes. Cost: n^2 numbers a channel."""
    key, log_decay = unread(padding(key_mask, key), key, log_decay)
    log_decay = log_decay[..., None] if log_decay.dim() == 3 else log_decay
    between = decays(log_decay).between
    return decayed_products(key, between, query / math.sqrt(query.size(-1)))[0]


class GatedLinearAttention(nn.Module):
    """Causal multi-head attention by `gated_linear_attention`; each token decides how much is forgotten.

        head_h = norm(gated_linear_attention(x W_h^Q, x W_h^K, x W_h^V, log sigmoid(x W_h^G + b) / 16))

    Without a softmax nothing bounds what a head reads, so each head's output is normalized.

    Args:
        embed_dim: width of the input and of the output.
        num_heads: divides embed_dim: heads of values, and states.
        per_channel: a decay for each channel of the key; ``False``: one for each head.
        chunk: see `gated_linear_attention`.
        num_qk_heads: heads of queries and keys, a divisor of num_heads: each serves as many states in a row.
            ``None`` means num_heads.
        conv_size: so many tokens, itself and those before, go into each query, key and value, by a
            `ShortConvolution`; 0 leaves it out.
        gate: ``"silu"`` or ``"sigmoid"`` multiplies what each head read, normalized, by that of x W^Z; None leaves it out.

    ``layer.rotary`` can be replaced, as in `attncourse.layers.MultiHeadAttention`.

    Raises:
        ValueError: embed_dim is not a multiple of num_heads, or num_heads of num_qk_heads, or an unknown gate.

    Cost: 4 embed_dim^2 parameters and those of the decays; a state of embed_dim * head_dim numbers.
    Source: yang2024gla, without the low rank of its decays; its gate is ``"silu"``.
    Chapter: 19_gated_delta.
    """

    rotary = staticmethod(rotary)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        per_channel: bool = True,
        chunk: int | None = None,
        num_qk_heads: int | None = None,
        conv_size: int = 0,
        gate: str | None = None,
    ):
        super().__init__()
        num_qk_heads = num_heads if num_qk_heads is None else num_qk_heads
        check_divisible("embed_dim", embed_dim, num_heads)
        check_divisible("num_heads", num_heads, num_qk_heads, "num_qk_heads")
        if gate not in GATES:
            raise ValueError(f"gate must be one of {', '.join(map(repr, GATES))}; got {gate!r}")
        self.embed_dim, self.num_heads, self.num_qk_heads = embed_dim, num_heads, num_qk_heads
        self.head_dim, self.chunk, self.gate = embed_dim // num_heads, chunk, gate
        qk_width = self.head_dim * num_qk_heads
        self.q_proj = nn.Linear(embed_dim, qk_width, bias=False)
        self.k_proj = nn.Linear(embed_dim, qk_width, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.decay_proj = nn.Linear(embed_dim, embed_dim if per_channel else num_heads)
        self.norm = nn.RMSNorm(self.head_dim, eps=1e-6)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        channels = 2 * qk_width + embed_dim
        self.conv = ShortConvolution(channels, conv_size) if conv_size else None
        if gate is not None:
            self.gate_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(
        self,
        query: Float[Tensor, "b n width"],
        key=None,
        value=None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = True,
        positions: Int[Tensor, "*b n"] | None = None,
        need_weights: bool = False,
        state: State = None,
        return_state: bool = False,
    ):
        """The output for a whole sequence, or for what follows a state.

        Args:
            query: all tokens, or those behind the state; key and value may name them again.
            attn_mask: padding alone, bool, (b, 1, 1, n): it leaves the state as it is.
            is_causal: ``True`` only; the state is read as the sequence is.
            positions: of the tokens; queries and keys are turned by them. ``None`` leaves them as they are.
            need_weights: return (output, weights): what each value counts before the norm, (b, h, n, n).
            state, return_state: see `gated_linear_attention`. With a convolution a pair: its last inputs, too.

        Raises:
            ValueError: ``is_causal=False``, another mask or sequence, or weights together with a state.
        """
        others = {"key": key, "value": value}
        refuse(self, ONE_SEQUENCE, **{k: x for k, x in others.items() if x is not query})
        refuse(
            self,
            "a state is read in order, so the layer is causal",
            **{"is_causal=False": not is_causal},
        )
        check_inputs(query, query, query, *[self.embed_dim] * 3)
        if need_weights and (state is not None or return_state):
            raise ValueError(
                "weights are those of a whole sequence; leave out state and return_state"
            )
        mask = key_mask(attn_mask, self, "the state sums over all keys alike")
        present = None if mask is None else mask.expand(query.size(0), 1, -1)
        if present is not None and self.conv is not None:  # its windows do not read padding either
            query = query.masked_fill(~present[:, 0, :, None], 0.0)
        table, tail = (state, None) if self.conv is None else (state or (None, None))
        parts, tail = self.projected(query, tail)
        heads = self.with_gates(query, *parts, positions)
        out, table = self.attend(*heads, state=table, key_mask=present)
        out = self.join(out, query)
        if need_weights:
            return out, self.weights(*heads, key_mask=present)
        state = table if self.conv is None else (table, tail)
        return (out, state) if return_state else out

    def projected(
        self, x: Tensor, tail: Tensor | None = None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
        """Queries, keys and values, through the convolution if there is one, and its last inputs."""
        parts = [proj(x) for proj in (self.q_proj, self.k_proj, self.v_proj)]
        if self.conv is not None:
            widths = [part.size(-1) for part in parts]
            mixed, tail = self.conv(torch.cat(parts, dim=-1), tail)
            parts = list(mixed.split(widths, dim=-1))
        q, k = (
            repeat_heads(split_heads(part, self.num_qk_heads), self.num_heads) for part in parts[:2]
        )
        return (q, k, split_heads(parts[2], self.num_heads)), tail

    def heads(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, ...]:
        """All that `attend` reads of a whole sequence: queries, keys, values and log-decays of all heads, and what more there is."""
        return self.with_gates(x, *self.projected(x)[0], positions)

    def turned(self, q: Tensor, k: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries and keys, turned by their positions if there are any."""
        return (
            (q, k) if positions is None else (self.rotary(q, positions), self.rotary(k, positions))
        )

    def with_gates(
        self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, positions: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Queries, keys, values and log-decays, these in float32 at least."""
        q, k = self.turned(q, k, positions)
        log_decay = split_heads(F.logsigmoid(wide(self.decay_proj(x))) / 16, self.num_heads)
        return q, k, v, log_decay if log_decay.size(-1) > 1 else log_decay[..., 0]

    def attend(self, q, k, v, log_decay, *, state, key_mask=None):
        """The outputs of all heads, and the state behind the last token."""
        options = {"state": state, "key_mask": key_mask, "chunk": self.chunk}
        return gated_linear_attention(q, k, v, log_decay, return_state=True, **options)

    def join(
        self, heads: Float[Tensor, "b h n d"], query: Float[Tensor, "b n width"]
    ) -> Float[Tensor, "b n width"]:
        """What the heads read, normalized, through the gate if there is one, and through the last matrix."""
        heads = self.norm(heads.to(self.norm.weight.dtype))  # under autocast they come narrower
        if self.gate is not None:
            heads = heads * GATES[self.gate](split_heads(self.gate_proj(query), self.num_heads))
        return self.out_proj(merge_heads(heads))

    def weights(self, q, k, v, log_decay, *, key_mask=None) -> Float[Tensor, "b h n n"]:
        """What each value counts, before the norm."""
        return gated_weights(q, k, log_decay, key_mask=key_mask)

    def advance(
        self,
        x: Float[Tensor, "b n width"],
        state: State,
        positions: Tensor | None = None,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n width"], State]:
        """The outputs of tokens behind a state, and the state behind them."""
        mask = None if present is None else present[:, None, None]
        return self(x, attn_mask=mask, positions=positions, state=state, return_state=True)


decodes(GatedLinearAttention, LinearCache.of)(decode_with_state)
