"""Linear attention that forgets: before each token is added, the state decays."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.decoding import decodes
from attncourse.layers import merge_heads, split_heads
from attncourse.variants.linear import LinearCache

Decay = Float[Tensor, "b h n"] | Float[Tensor, "b h n d"]


def gated_linear_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    log_decay: Decay,
    *,
    scale: float | None = None,
    state: Float[Tensor, "b h d e"] | None = None,
    return_state: bool = False,
    chunk: int = 64,
) -> Tensor | tuple[Tensor, Tensor]:
    """Causal linear attention whose state fades, by a factor that each token may choose.

        state(t)  = diag(exp(log_decay(t))) state(t-1)  +  key(t) value(t)^T
        output(t) = scale * query(t) state(t)

    A token that was read s steps ago counts by the product of the decays since. Tokens are read ``chunk`` at a
    time: what came before from the state, what stands inside a chunk by `decayed_products`.

    Args:
        query, key, value: of one sequence; there is no softmax and no feature map.
        log_decay: logarithm of the factor, at most 0: one for each token and head, or one for each channel
            of the key as well. 0 keeps everything.
        scale: factor on the products; ``None`` means 1 / sqrt(d).
        state: of all that was read before, from ``return_state``.
        return_state: return (output, state).
        chunk: tokens a step; the result does not depend on it.

    Raises:
        ValueError: a chunk below 1, or shapes that do not fit.

    Cost: 4 n d e + 2 n chunk (d + e) FLOPs per head. With a decay for each channel, chunk^2 d numbers.
    Reduces to: `attncourse.variants.linear.linear_attention`, causal, with products as features and not
        normalized, times scale, when log_decay = 0.
    Source: yang2024gla; sun2023 for decays that are constant.
    Chapter: 19_gated_delta.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    log_decay, state = check_sequence(query, key, value, log_decay, state, chunk)
    outputs = []
    for q, k, v, g in zip(
        *(x.split(chunk, dim=2) for x in (query * scale, key, value, log_decay)), strict=True
    ):
        total = g.cumsum(dim=2)
        output, state = read_chunk(q, k, v, total, decay_between(total), state)
        outputs.append(output)
    output = torch.cat(outputs, dim=2)
    return (output, state) if return_state else output


def decay_between(total: Float[Tensor, "b h n c"]) -> Float[Tensor, "b h n n c"]:
    """How much of token j is left when token i reads.

        decay(i, j) = exp(total(i) - total(j))     for j <= i, else 0

    Args:
        total: sum of the log-decays up to each token; the last axis is d or 1.

    Cost: n^2 c numbers.
    Chapter: 19_gated_delta.
    """
    n = total.size(2)
    above = torch.ones(n, n, dtype=torch.bool, device=total.device).triu(1)[:, :, None]
    # Hidden before `exp`: above the diagonal the differences are positive, and may be large.
    return (total[:, :, :, None] - total[:, :, None]).masked_fill(above, -math.inf).exp()


def decayed_products(
    rows: Float[Tensor, "b h n d"],
    keys: Float[Tensor, "b h n d"],
    decay: Float[Tensor, "b h n n c"],
) -> Float[Tensor, "b h n n"]:
    """Products of each row with the keys up to its own, faded by what decayed in between.

        product(i, j) = sum_d rows(i, d) keys(j, d) decay(i, j, d)

    Args:
        rows: queries, or keys.
        keys: of the same tokens.
        decay: from `decay_between`.

    Cost: 2 n^2 d FLOPs.
    Chapter: 19_gated_delta.
    """
    if decay.size(-1) == 1:
        return rows @ keys.mT * decay[..., 0]
    return torch.einsum("bhid,bhjd,bhijd->bhij", rows, keys, decay)


def read_chunk(
    q: Float[Tensor, "b h c d"],
    k: Float[Tensor, "b h c d"],
    added: Float[Tensor, "b h c e"],
    total: Tensor,
    decay: Tensor,
    state: Float[Tensor, "b h d e"],
) -> tuple[Float[Tensor, "b h c e"], Float[Tensor, "b h d e"]]:
    """The outputs of one chunk and the state behind it; ``added`` are the values that its tokens write."""
    output = (q * total.exp()) @ state + decayed_products(q, k, decay) @ added
    end = total[:, :, -1:]
    state = end.exp().mT * state + (k * (end - total).exp()).mT @ added
    return output, state


def retention_decay(num_heads: int) -> Float[Tensor, " h"]:
    """The constant log-decays of retention: head h keeps 1 - 2^(-5-h) of its state at each step.

    Source: sun2023.
    Chapter: 19_gated_delta.
    """
    return torch.log1p(-(2.0 ** (-5.0 - torch.arange(num_heads))))


def check_sequence(query, key, value, log_decay, state, chunk) -> tuple[Tensor, Tensor]:
    """The log-decays with an axis for channels, and the state, empty if there is none; refuses other shapes."""
    b, h, n, d = query.shape
    if chunk < 1:
        raise ValueError(f"chunk counts the tokens of a step and must be at least 1; got {chunk}")
    if n < 1:
        raise ValueError("the sequence is empty; give one token or more")
    if key.shape != query.shape or value.shape[:3] != query.shape[:3]:
        raise ValueError(
            f"query, key and value must be of one sequence and of equal heads, query and key of one width; got "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if log_decay.shape not in ((b, h, n), (b, h, n, d)):
        raise ValueError(
            f"log_decay must be ({b}, {h}, {n}), or ({b}, {h}, {n}, {d}) with one for each channel; got "
            f"{tuple(log_decay.shape)}. Constant decays need .expand"
        )
    wanted = (b, h, d, value.size(-1))
    state = key.new_zeros(wanted) if state is None else state
    if state.shape != wanted:
        raise ValueError(f"state must be {wanted}; got {tuple(state.shape)}")
    return log_decay.reshape(b, h, n, -1), state


class GatedLinearAttention(nn.Module):
    """Causal multi-head attention by `gated_linear_attention`; each token decides how much is forgotten.

        head_h = norm(gated_linear_attention(x W_h^Q, x W_h^K, x W_h^V, log sigmoid(x W_h^G + b) / 16))

    Without a softmax nothing bounds what a head reads, so each head's output is normalized.

    Args:
        embed_dim: width of the input and of the output.
        num_heads: divides embed_dim.
        per_channel: a decay for each channel of the key; ``False``: one for each head.
        chunk: see `gated_linear_attention`.

    Raises:
        ValueError: embed_dim is not a multiple of num_heads.

    Cost: 4 embed_dim^2 parameters and the gate's; a state of embed_dim * head_dim numbers.
    Source: yang2024gla; without the low rank of its gate and without its gate behind the heads.
    Chapter: 19_gated_delta.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, per_channel: bool = True, chunk: int = 64
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be a multiple of num_heads; got {embed_dim} and {num_heads}"
            )
        self.num_heads, self.chunk = num_heads, chunk
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.decay_proj = nn.Linear(embed_dim, embed_dim if per_channel else num_heads)
        self.norm = nn.RMSNorm(embed_dim // num_heads, eps=1e-6)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(
        self,
        x: Float[Tensor, "b n width"],
        *,
        is_causal: bool = True,
        need_weights: bool = False,
        state: Tensor | None = None,
        return_state: bool = False,
    ):
        """The output for a whole sequence, or for what follows a state.

        Args:
            x: all tokens, or those behind the state.
            is_causal: ``True`` only; the state is read as the sequence is.
            need_weights: return (output, weights): what each value counts before the norm, (b, h, n, n).
            state, return_state: see `gated_linear_attention`.

        Raises:
            ValueError: ``is_causal=False``, or weights together with a state.
        """
        if not is_causal:
            raise ValueError(
                "a state is read in order, so the layer is causal; got is_causal=False"
            )
        if need_weights and (state is not None or return_state):
            raise ValueError(
                "weights are those of a whole sequence; leave out state and return_state"
            )
        heads = self.heads(x)
        out, state = self.attend(*heads, state=state)
        out = self.out_proj(merge_heads(self.norm(out)))
        if need_weights:
            return out, self.weights(*heads)
        return (out, state) if return_state else out

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys, values and log-decays of all heads."""
        q, k, v = (
            split_heads(proj(x), self.num_heads) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        log_decay = F.logsigmoid(split_heads(self.decay_proj(x), self.num_heads)) / 16
        return q, k, v, log_decay if log_decay.size(-1) > 1 else log_decay[..., 0]

    def attend(self, q, k, v, log_decay, *, state):
        """The outputs of all heads, and the state behind the last token."""
        return gated_linear_attention(
            q, k, v, log_decay, state=state, return_state=True, chunk=self.chunk
        )

    def weights(self, q, k, v, log_decay) -> Float[Tensor, "b h n n"]:
        total = log_decay.reshape(*q.shape[:3], -1).cumsum(dim=2)
        return decayed_products(q / math.sqrt(q.size(-1)), k, decay_between(total))


@decodes(GatedLinearAttention)
def _(layer: GatedLinearAttention, x, cache):
    """A cache of a state: nothing else is kept of the tokens."""
    if not (isinstance(cache, LinearCache) and cache.layer is layer):
        raise TypeError(f"the layer decodes with a LinearCache of its own; got {cache}")
    out, cache.state = layer(x, state=cache.state, return_state=True)
    cache.length += x.size(1)
    return out
