"""Longformer: every token reads its window and a few global tokens, and the global tokens read everything."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.layers import SelfAttention, merge_heads, split_heads
from attncourse.masks import any_of, dense, global_tokens, sliding_window
from attncourse.steps import attention
from attncourse.variants.window import ROWS, neighbours, pair

Projections = tuple[Tensor, Tensor, Tensor]


def longformer_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    is_global: Bool[Tensor, "b n"],
    window_size: tuple[int, int],
    *,
    global_projections: Projections | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """A window and global tokens under one softmax, without a table of n n numbers.

        o_i = sum_j softmax_j(q_i . k_j / sqrt(d)) v_j      over j in the window of i, and all global j
        o_g = sum_j softmax_j(q'_g . k'_j / sqrt(d)) v'_j   over all j, if g is global

    q', k', v' are projections of their own. Whoever reads a global token uses k and v, as for any other.

    Args:
        query, key, value: of all tokens.
        is_global: ``True`` for the global tokens; each sample has its own, some may have none.
        window_size: (left, right), the neighbours that a token reads on both sides; itself always.
        global_projections: (query, key, value) that the rows of global tokens use, each of all tokens;
            queries of other tokens are not looked at. ``None``: the same as for everyone.
        scale: ``None`` means 1 / sqrt(head_dim).

    Raises:
        TypeError: is_global is not bool.
        ValueError: shapes that do not fit, or a negative number of neighbours.

    Cost: 2 n (left + right + `ROWS` + 2 g) (d + e) FLOPs per head for g global tokens, half of the last
        term for their own rows; memory for the inputs and one block, in training for all blocks.
    Reduces to: a sliding window without global tokens; full attention when all are global.
    Source: beltagy2020, section 3.1.
    Chapter: 14_global_local.
    """
    _check(query, key, value, is_global)
    out = local_rows(query, key, value, is_global, window_size, scale)
    positions, real = listed(is_global)
    q, k, v = global_projections or (query, key, value)
    rows = F.scaled_dot_product_attention(at(q, positions), k, v, scale=scale)
    sample, slot = real.nonzero(as_tuple=True)
    out.transpose(1, 2)[sample, positions[sample, slot]] = rows.transpose(1, 2)[sample, slot]
    return out


def local_rows(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    is_global: Bool[Tensor, "b n"],
    window_size: tuple[int, int],
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """What a token reads that is not global: block by block, its window and the global keys.

    As `attncourse.variants.window.sliding_window_attention`, with the global keys in front of each block's.
    """
    (left, right), rule = window_size, sliding_window(*window_size)
    positions, real = listed(is_global)
    global_key, global_value = at(key, positions), at(value, positions)
    keys, values = key.split(ROWS, dim=2), value.split(ROWS, dim=2)
    outputs = []
    for block, rows in enumerate(query.split(ROWS, dim=2)):
        first = block * ROWS
        near = neighbours(first - left, first + ROWS - 1 + right, len(keys))
        k = torch.cat([global_key, *keys[near]], dim=2)
        v = torch.cat([global_value, *values[near]], dim=2)
        i = torch.arange(first, first + rows.size(2), device=key.device)
        j = torch.arange(near.start * ROWS, min(near.stop * ROWS, key.size(2)), device=key.device)
        # A global key has been counted in front; in the window it is not counted again.
        window = rule(None, None, i[:, None], j) & ~is_global[:, None, j]
        seen = torch.cat([real[:, None].expand(-1, rows.size(2), -1), window], dim=2)[:, None]
        outputs.append(F.scaled_dot_product_attention(rows, k, v, seen, scale=scale))
    return torch.cat(outputs, dim=2)


def listed(is_global: Bool[Tensor, "b n"]) -> tuple[Int[Tensor, "b g"], Bool[Tensor, "b g"]]:
    """Positions of the global tokens, and which of them are real: samples have different numbers."""
    most = int(is_global.sum(1).max()) if is_global.numel() else 0
    positions = is_global.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    return positions, is_global.gather(1, positions)


def at(x: Float[Tensor, "b h n d"], positions: Int[Tensor, "b g"]) -> Float[Tensor, "b h g d"]:
    """``x[b, h, positions[b, g]]``."""
    index = positions[:, None, :, None].expand(-1, x.size(1), -1, x.size(-1))
    return x.gather(2, index)


def _check(query, key, value, is_global) -> None:
    if is_global.dtype != torch.bool:
        raise TypeError(
            f"is_global must be bool, True = a global token; got {is_global.dtype}. Use "
            f"is_global.bool() if 1 marks a global token"
        )
    if query.shape != key.shape or key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"query, key and value must be of the same tokens and heads; got query "
            f"{tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if is_global.shape != (query.size(0), query.size(2)):
        raise ValueError(
            f"is_global must be (batch, seq) = {(query.size(0), query.size(2))}; got shape "
            f"{tuple(is_global.shape)}. If all samples have the same global tokens, "
            f"is_global.expand(batch, -1)"
        )


class LongformerAttention(SelfAttention):
    """Self-attention with a window and global tokens, whose own rows have projections of their own.

        q, k, v = x W^Q, x W^K, x W^V             for every row, whomever it reads
        q', k', v' = x W'^Q, x W'^K, x W'^V       for the rows of global tokens

    W' starts as a copy of W, as in the paper, so that training begins with one kind of attention.

    Args:
        embed_dim, num_heads, bias: as in `attncourse.layers.MultiHeadAttention`.
        window_size: as in `attncourse.variants.window.SlidingWindowAttention`: an int w means
            |i - j| <= w / 2, and a pair the neighbours on each side.

    Cost: 7 embed_dim^2 parameters, without biases; see `longformer_attention`.
    Reduces to: `SlidingWindowAttention` when no token is global.
    Source: beltagy2020, section 3.1.
    Chapter: 14_global_local.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window_size: int | tuple[int, int],
        bias: bool = True,
    ):
        super().__init__(embed_dim, num_heads, bias=bias)
        self.window_size = pair(window_size)
        sliding_window(*self.window_size)  # it says what is wrong with the numbers
        self.q_global_proj = deepcopy(self.q_proj)
        self.k_global_proj = deepcopy(self.k_proj)
        self.v_global_proj = deepcopy(self.v_proj)

    def forward(
        self,
        x: Float[Tensor, "b n width"],
        is_global: Bool[Tensor, "b n"],
        *,
        need_weights: bool = False,
    ):
        """The output for every token.

        Args:
            x: all tokens.
            is_global: ``True`` for the global ones.
            need_weights: return (output, weights), weights (b, h, n, n); then all n n pairs are computed.

        Returns: (b, n, embed_dim), or the pair.
        """
        self._check_inputs(x, x, x)
        local = self.project(x, x, x)
        projections = (self.q_global_proj, self.k_global_proj, self.v_global_proj)
        q, k, v = (split_heads(proj(x), self.num_heads) for proj in projections)
        own = (q, k, v)
        if need_weights:
            out, weights = masked_form(*local, is_global, self.window_size, own)
            return self.out_proj(merge_heads(out)), weights
        out = longformer_attention(*local, is_global, self.window_size, global_projections=own)
        return self.out_proj(merge_heads(out))

    def attend(self, *inputs, **options):
        """Refused: which tokens are global, and what they ask, is known to the whole layer only."""
        raise TypeError(
            "LongformerAttention needs to know which tokens are global; got queries, keys and values only. "
            "Call the layer: layer(x, is_global)"
        )


def masked_form(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    is_global: Bool[Tensor, "b n"],
    window_size: tuple[int, int],
    own: Projections,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n n"]]:
    """The same output from a table of all pairs, and the weights: for looking at them, not for long inputs."""
    b, n = is_global.shape
    rule = any_of(sliding_window(*window_size), global_tokens(is_global))
    visible = dense(rule, b, 1, n, n).to(query.device)
    both = attention(query, key, value, attn_mask=visible), attention(*own, attn_mask=visible)
    row = is_global[:, None, :, None]
    output, weights = (
        torch.where(row, of_global, local) for local, of_global in zip(*both, strict=True)
    )
    return output, weights
