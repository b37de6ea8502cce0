"""Longformer: every token reads its window and a few global tokens, and the global tokens read everything."""

from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.interface import check_inputs, check_sequences, key_mask, refuse, whole
from attncourse.layers import SelfAttention, split_heads
from attncourse.masks import sliding_window
from attncourse.steps import attention
from attncourse.variants.window import ROWS, neighbours, of_every_sample, pair, table

Projections = tuple[Tensor, Tensor, Tensor]
Found = tuple[Int[Tensor, "b g"], Bool[Tensor, "b g"]]


def longformer_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    is_global: Bool[Tensor, "b n"],
    window_size: tuple[int, int],
    *,
    global_projections: Projections | None = None,
    scale: float | None = None,
    key_mask: Bool[Tensor, "*b n"] | None = None,
    dropout_p: float = 0.0,
    most: int | None = None,
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
        key_mask, dropout_p: as in `attncourse.variants.window.sliding_window_attention`.
        most: no sample has more global tokens than that; what stands behind the first ``most`` is local. ``None``:
            they are counted, which ``torch.compile`` and ``vmap`` cannot, since shapes then depend on numbers.

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
    real, found = of_every_sample(key_mask, key), listed(is_global, most)
    options: dict[str, Any] = {"scale": scale, "dropout_p": dropout_p}
    out = local_rows(query, key, value, found, window_size, real, **options)
    q, k, v = global_projections or (query, key, value)
    seen = None if real is None else real[:, None, None]
    rows = F.scaled_dot_product_attention(at(q, found[0]), k, v, seen, **options)
    return put(out, found, rows)


def local_rows(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    found: Found,
    window_size: tuple[int, int],
    real: Bool[Tensor, "b n"] | None,
    **options,
) -> Float[Tensor, "b h n e"]:
    """What a token reads that is not global: block by block, its window and the global keys.

    As `attncourse.variants.window.sliding_window_attention`, with the global keys in front of each block's.
    """
    (left, right), rule, (positions, there) = window_size, sliding_window(*window_size), found
    real = key.new_ones(key.size(0), key.size(2), dtype=torch.bool) if real is None else real
    there = there & real.gather(1, positions)
    # A global key is counted in front; in the window it is not counted again.
    real = real.scatter(1, positions, real.gather(1, positions) & ~found[1])
    global_key, global_value = at(key, positions), at(value, positions)
    keys, values = key.split(ROWS, dim=2), value.split(ROWS, dim=2)
    outputs = []
    for block, rows in enumerate(query.split(ROWS, dim=2)):
        first = block * ROWS
        near = neighbours(first - left, first + ROWS - 1 + right, len(keys))
        k = torch.cat([global_key, *keys[near]], dim=2)
        v = torch.cat([global_value, *values[near]], dim=2)
        start, n = near.start * ROWS, rows.size(2)
        local = real[:, start : near.stop * ROWS]
        window = table(rule, n, local.size(1), first - start, key.device) & local[:, None]
        seen = torch.cat([there[:, None].expand(-1, n, -1), window], dim=2)[:, None]
        outputs.append(F.scaled_dot_product_attention(rows, k, v, seen, **options))
    return torch.cat(outputs, dim=2)


def listed(is_global: Bool[Tensor, "b n"], most: int | None = None) -> Found:
    """Positions of the global tokens, and which of them are real: samples have different numbers."""
    if most is None:
        most = int(is_global.sum(1).max()) if len(is_global) else 0
    positions = is_global.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    return positions, is_global.gather(1, positions)


def at(x: Float[Tensor, "b h n d"], positions: Int[Tensor, "b g"]) -> Float[Tensor, "b h g d"]:
    """``x[b, h, positions[b, g]]``."""
    index = positions[:, None, :, None].expand(-1, x.size(1), -1, x.size(-1))
    return x.gather(2, index)


def put(
    x: Float[Tensor, "b h n d"], found: Found, rows: Float[Tensor, "b h g d"]
) -> Float[Tensor, "b h n d"]:
    """``x`` with the rows of the global tokens in their places: the counterpart of `at`."""
    positions, there = found
    rows = torch.where(there[:, None, :, None], rows, at(x, positions))
    return x.scatter(2, positions[:, None, :, None].expand(rows.shape), rows)


def _check(query, key, value, is_global) -> None:
    if is_global.dtype != torch.bool:
        raise TypeError(
            f"is_global must be bool, True = a global token; got {is_global.dtype}. Use "
            f"is_global.bool() if 1 marks a global token"
        )
    check_sequences(query, key, value)
    if query.size(2) != key.size(2):
        raise ValueError(
            f"query and key must be of the same tokens, for global ones are both; got {query.size(2)} queries and "
            f"{key.size(2)} keys. Give all tokens as both"
        )
    if is_global.shape != (query.size(0), query.size(2)):
        raise ValueError(
            f"is_global must be (batch, seq) = {(query.size(0), query.size(2))}; got shape "
            f"{tuple(is_global.shape)}. If all samples have the same global tokens, "
            f"is_global.expand(batch, -1)"
        )


# Why there is no other mask than padding.
BOTH_WAYS = "its global tokens read the whole sequence and are read by all"


class LongformerAttention(SelfAttention):
    """Self-attention with a window and global tokens, whose own rows have projections of their own.

        q, k, v = x W^Q, x W^K, x W^V             for every row, whomever it reads
        q', k', v' = x W'^Q, x W'^K, x W'^V       for the rows of global tokens

    W' starts as a copy of W, as in the paper, so that training begins with one kind of attention.

    Args:
        embed_dim, num_heads, bias: as in `attncourse.layers.MultiHeadAttention`.
        window_size: as in `attncourse.variants.window.SlidingWindowAttention`: an int w means
            |i - j| <= w / 2, and a pair the neighbours on each side.
        num_global: the first tokens of each sample that are global, where a call does not say which are.
        dropout: as in `attncourse.layers.MultiHeadAttention`.

    Where a call says which tokens are global, their number decides about shapes, and no graph can hold it: compile,
    export and batch a layer with ``num_global``.

    Raises:
        ValueError: a negative number, a mask that is more than padding, ``is_causal``, a key that is another
            sequence. TypeError: numbers that are not whole, or is_global of another dtype than bool.

    Cost: 7 embed_dim^2 parameters, without biases; see `longformer_attention`.
    Reduces to: `SlidingWindowAttention` when no token is global.
    Source: beltagy2020, section 3.1.
    Chapter: 14_global_local.
    """

    one_sequence = "a window and global tokens are of one sequence"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window_size: int | tuple[int, int],
        bias: bool = True,
        *,
        num_global: int = 0,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, dropout, bias)
        self.window_size = pair(window_size)
        sliding_window(*self.window_size)  # it says what is wrong with the numbers
        self.num_global = whole("num_global", num_global)
        if self.num_global < 0:
            raise ValueError(
                f"num_global counts tokens and must be 0 or more; got {num_global}. Use 0 for a window alone"
            )
        self.q_global_proj = deepcopy(self.q_proj)
        self.k_global_proj = deepcopy(self.k_proj)
        self.v_global_proj = deepcopy(self.v_proj)

    def forward(
        self,
        query: Float[Tensor, "b n width"],
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        is_global: Bool[Tensor, "b n"] | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        positions: Int[Tensor, "*b n"] | None = None,
        need_weights: bool = False,
    ):
        """The output for every token.

        Args:
            query: all tokens; key and value may name them again. A bool tensor in the place of the key is
                ``is_global``: ``layer(x, is_global)``.
            is_global: ``True`` for the global ones; ``None``: the first ``num_global`` of each sample.
            attn_mask: padding, a bool mask (b, 1, 1, n).
            is_causal: refused.
            positions: of the tokens; they turn queries and keys of both kinds.
            need_weights: return (output, weights), weights (b, h, n, n); then all n n pairs are computed.

        Returns: (b, n, embed_dim), or the pair.
        """
        if key is not None and not key.is_floating_point():
            key, is_global = None, key
        others = {"key": key, "value": value}
        refuse(self, self.one_sequence, **{k: x for k, x in others.items() if x is not query})
        refuse(self, BOTH_WAYS, is_causal=is_causal)
        real = key_mask(attn_mask, self, BOTH_WAYS)
        check_inputs(query, query, query, *[self.embed_dim] * 3)
        most = None if is_global is not None else self.num_global
        if is_global is None:
            is_global = self.first_tokens(query)
        inputs = *self.project(query, query, query, positions), is_global, self.window_size
        own = self.project_global(query, positions)
        options: dict[str, Any] = {"global_projections": own, "key_mask": real}
        options["dropout_p"] = self.dropout_p
        if need_weights:
            out, weights = masked_form(*inputs, **options)
            return self.join(out, query), weights
        return self.join(longformer_attention(*inputs, most=most, **options), query)

    def first_tokens(self, x: Float[Tensor, "b n width"]) -> Bool[Tensor, "b n"]:
        """The first ``num_global`` tokens of each sample."""
        first = torch.arange(x.size(1), device=x.device) < self.num_global
        return first.expand(x.size(0), -1)

    def project_global(self, x: Tensor, positions: Tensor | None = None) -> Projections:
        """As `project`, for the rows of global tokens."""
        projections = (self.q_global_proj, self.k_global_proj, self.v_global_proj)
        q, k, v = (split_heads(proj(x), self.num_heads) for proj in projections)
        if positions is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return q, k, v

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
    global_projections: Projections,
    key_mask: Bool[Tensor, "*b n"] | None = None,
    dropout_p: float = 0.0,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n n"]]:
    """The same output from a table of all pairs, and the weights: for looking at them, not for long inputs."""
    _check(query, key, value, is_global)
    n, real = query.size(2), of_every_sample(key_mask, key)
    window = table(sliding_window(*window_size), n, n, 0, query.device)
    visible = (window | is_global[:, :, None] | is_global[:, None])[:, None]
    if real is not None:
        visible = visible & real[:, None, None]
    options: dict[str, Any] = {"attn_mask": visible, "dropout_p": dropout_p}
    both = attention(query, key, value, **options), attention(*global_projections, **options)
    row = is_global[:, None, :, None]
    output, weights = (
        torch.where(row, of_global, local) for local, of_global in zip(*both, strict=True)
    )
    return output, weights
