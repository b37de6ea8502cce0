"""Longformer: every token reads its window and a few global tokens, and the global tokens read everything."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.layers import MultiHeadAttention, merge_heads, split_heads

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
        TypeError: is_global is not bool. ValueError: shapes that do not fit, or a negative window.

    Cost: 2 n (w + g) (d + e) FLOPs per head for a window of w tokens and g global ones, at most three
        times that w with blocks, and 2 g n (d + e) for the rows of the global tokens; memory for the inputs,
        n g scores and one block.
    Reduces to: a sliding window without global tokens; full attention when all are global.
    Source: beltagy2020, section 3.1.
    Chapter: 14_global_local.
    """
    _check(query, key, value, is_global, window_size)
    positions, real = listed(is_global)
    out = local_rows(query, key, value, is_global, positions, real, window_size, scale)
    if positions.size(1) == 0:
        return out
    q, k, v = global_projections or (query, key, value)
    rows = F.scaled_dot_product_attention(at(q, positions), k, v, scale=scale)
    sample, slot = real.nonzero(as_tuple=True)
    out.transpose(1, 2)[sample, positions[sample, slot]] = rows.transpose(1, 2)[sample, slot]
    return out


def local_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_global: Bool[Tensor, "b n"],
    positions: Int[Tensor, "b g"],
    real: Bool[Tensor, "b g"],
    window_size: tuple[int, int],
    scale: float | None,
) -> Float[Tensor, "b h n e"]:
    """What every token reads that is not global: block by block, its window and the global keys.

    Keys and values are cut once; a slice inside the loop would have a gradient as long as the whole.
    """
    left, right = window_size
    size = max(left, right, 16)
    back, ahead = -(-left // size), -(-right // size)
    global_key, global_value = at(key, positions), at(value, positions)
    keys, values, hidden = (x.split(size, -2) for x in (key, value, is_global[:, None, None].mT))
    out = []
    for c, q in enumerate(query.split(size, -2)):
        near = slice(max(0, c - back), c + ahead + 1)
        k = torch.cat([global_key, *keys[near]], -2)
        v = torch.cat([global_value, *values[near]], -2)
        i = torch.arange(c * size, c * size + q.size(-2), device=query.device)[:, None]
        j = near.start * size + torch.arange(k.size(-2) - positions.size(1), device=query.device)
        # A global key inside the window has been counted already.
        window = (i - left <= j) & (j <= i + right) & ~torch.cat(hidden[near], -2).mT
        visible = torch.cat([real[:, None, None].expand(-1, 1, q.size(-2), -1), window], -1)
        out.append(F.scaled_dot_product_attention(q, k, v, visible, scale=scale))
    return torch.cat(out, -2) if out else torch.zeros_like(value)


def listed(is_global: Bool[Tensor, "b n"]) -> tuple[Int[Tensor, "b g"], Bool[Tensor, "b g"]]:
    """Positions of the global tokens, and which of them are real: samples have different numbers."""
    most = int(is_global.sum(1).max()) if is_global.numel() else 0
    positions = is_global.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    return positions, is_global.gather(1, positions)


def at(x: Float[Tensor, "b h n d"], positions: Int[Tensor, "b g"]) -> Float[Tensor, "b h g d"]:
    """``x[b, h, positions[b, g]]``."""
    index = positions[:, None, :, None].expand(-1, x.size(1), -1, x.size(-1))
    return x.gather(2, index)


def _check(query, key, value, is_global, window_size) -> None:
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
    if min(window_size) < 0:
        raise ValueError(
            f"window_size counts the neighbours on the left and on the right, 0 or more; got {window_size}"
        )


class LongformerAttention(MultiHeadAttention):
    """Self-attention with a window and global tokens, which have projections of their own.

        q = x W^Q, k = x W^K, v = x W^V           for every row, whomever it reads
        q' = x W'^Q, k' = x W'^K, v' = x W'^V     for the rows of global tokens

    Args:
        embed_dim, num_heads, bias: as in `attncourse.layers.MultiHeadAttention`.
        window_size: an int w means |i - j| <= w / 2, w // 2 neighbours on each side; or (left, right).

    Cost: 7 embed_dim^2 parameters, without biases.
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
        whole = isinstance(window_size, int)
        self.window_size = (window_size // 2, window_size // 2) if whole else window_size
        self.q_global_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_global_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.v_global_proj = nn.Linear(embed_dim, embed_dim, bias)

    def forward(self, x: Float[Tensor, "b n width"], is_global: Bool[Tensor, "b n"]) -> Tensor:
        """The output for every token.

        Args:
            x: all tokens.
            is_global: ``True`` for the global ones.

        Returns: (b, n, embed_dim).
        """
        self._check_inputs(x, x, x)
        q, k, v = self.project(x, x, x)
        own = None
        if is_global.any():
            own = tuple(
                split_heads(proj(x), self.num_heads)
                for proj in (self.q_global_proj, self.k_global_proj, self.v_global_proj)
            )
        out = longformer_attention(q, k, v, is_global, self.window_size, global_projections=own)
        return self.out_proj(merge_heads(out))
