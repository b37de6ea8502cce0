"""FlashAttention-2 in plain PyTorch: exact attention, tile by tile, forward and backward.

No tensor of queries x keys exists at any time. The backward pass does not need one either: it
computes each tile of weights again, from the scores and from the one number a row that forward kept.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attncourse.variants.flash.online import online_softmax

# Of a tile: it fits into the cache, and one product of matrices keeps the processor busy.
ROWS, COLUMNS = 128, 256


def forward(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    scale: float,
    is_causal: bool = False,
    offset: int = 0,
    attn_mask: Tensor | None = None,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n"]]:
    """Output and log-sum-exp of each row: for every block of rows, one pass over the keys.

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        scale: factor on the dot products.
        is_causal: query i reads keys 0..i + offset.
        offset: position of query 0 among the keys.
        attn_mask: bool, ``True`` = may attend; broadcasts to (b, h, n, m).

    Cost: 2 n m (d + e) FLOPs per head, half of it if causal; memory for the inputs and one tile.
    Reduces to: `attncourse.steps.attention` when one tile holds everything.
    Source: dao2023, algorithm 1.
    """
    q, k, v, visible = by_group(query, key, value, scale, attn_mask)
    output = v.new_zeros(*q.shape[:-1], v.size(-1))
    lse = q.new_zeros(q.shape[:-1])
    for rows in blocks(q.size(-2), ROWS):
        stream = (
            (tile_scores(q, k, rows, columns, seen), v[..., columns, :])
            for columns, seen in tiles(rows, k.size(-2), is_causal, offset, visible, q.device)
        )
        output[..., rows, :], lse[..., rows] = online_softmax(stream, output[..., rows, :])
    return output.flatten(1, 2).to(query.dtype), lse.flatten(1, 2)


def backward(
    grad_output: Float[Tensor, "b h n e"],
    grad_lse: Float[Tensor, "b h n"],
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    output: Float[Tensor, "b h n e"],
    lse: Float[Tensor, "b h n"],
    scale: float,
    is_causal: bool = False,
    offset: int = 0,
    attn_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value; the weights are computed again, tile by tile.

        p = exp(scores - lse)              dv = p^T do
        ds = p (do value^T - delta)        dq = scale ds key        dk = scale ds^T query

    where delta = sum(do * o), the same for all keys of a row, less the gradient of lse. With the output
    and lse of a longer row these are the gradients' parts that come from the keys given here.

    Cost: 2.5 times the FLOPs of `forward`; memory for the gradients and one tile.
    Source: dao2023, algorithm 2.
    """
    q, k, v, visible = by_group(query, key, value, scale, attn_mask)
    do, o = by_row(grad_output, q), by_row(output, q)
    delta = (do * o).sum(dim=-1) - by_row(grad_lse, q)
    lse = by_row(lse, q)
    lse = lse.masked_fill(lse == -math.inf, 0.0)  # an empty row: exp(-inf - 0) = 0
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in blocks(q.size(-2), ROWS):
        for columns, seen in tiles(rows, k.size(-2), is_causal, offset, visible, q.device):
            p = torch.exp(tile_scores(q, k, rows, columns, seen) - lse[..., rows, None])
            dp = do[..., rows, :] @ v[..., columns, :].mT
            ds = p * (dp - delta[..., rows, None])
            dq[..., rows, :] += ds @ k[..., columns, :]
            # All query heads of a group add to the one key/value head that they read.
            dk[..., columns, :] += (ds.mT @ q[..., rows, :]).sum(dim=2, keepdim=True)
            dv[..., columns, :] += (p.mT @ do[..., rows, :]).sum(dim=2, keepdim=True)
    dq, dk, dv = dq.flatten(1, 2) * scale, dk.squeeze(2), dv.squeeze(2)
    return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype)


def tile_scores(q: Tensor, k: Tensor, rows: slice, columns: slice, seen: Tensor | None) -> Tensor:
    """The scores of one tile, minus infinity where ``seen`` says False."""
    scores = q[..., rows, :] @ k[..., columns, :].mT
    return scores if seen is None else scores.masked_fill(~seen, -math.inf)


def tiles(
    rows: slice, m: int, is_causal: bool, offset: int, visible: Tensor | None, device: torch.device
) -> Iterator[tuple[slice, Tensor | None]]:
    """The columns that these rows may read, block by block, each with its mask.

    A tile in which nothing is visible is left out, and one in which the diagonal hides nothing comes
    without a mask: under a causal rule only the tiles on the diagonal pay for it.
    """
    for columns in blocks(m, COLUMNS):
        last_row, last_column = rows.stop - 1 + offset, columns.stop - 1
        if is_causal and columns.start > last_row:
            return
        seen = None if visible is None else visible[..., rows, columns]
        if is_causal and last_column > rows.start + offset:
            i = torch.arange(rows.start, rows.stop, device=device) + offset
            below = torch.arange(columns.start, columns.stop, device=device) <= i[:, None]
            seen = below if seen is None else seen & below
        # Only a given mask can hide all of it; a graph that is traced cannot look.
        if seen is None or visible is None or torch.compiler.is_compiling() or seen.any():
            yield columns, seen


def blocks(length: int, size: int) -> list[slice]:
    """0..length in slices of ``size``; the last one may be shorter."""
    return [slice(a, min(a + size, length)) for a in range(0, length, size)]


def by_group(query: Tensor, key: Tensor, value: Tensor, scale: float, attn_mask: Tensor | None):
    """Everything with an axis for the query heads that share a key/value head: (b, g, h / g, seq, width).

    Keys and values have 1 there and broadcast, so nothing is copied. The scale goes into the queries:
    n d products instead of n m. float16 and bfloat16 are computed in float32, as tensor cores do.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    q = (query.to(wide) * scale).unflatten(1, (key.size(1), -1))
    k, v = key.to(wide)[:, :, None], value.to(wide)[:, :, None]
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.size(2)).unflatten(1, q.shape[1:3])
    return q, k, v, attn_mask


def by_row(x: Tensor, q: Tensor) -> Tensor:
    """A tensor with query heads, split as `by_group` splits the queries."""
    return x.to(q.dtype).unflatten(1, q.shape[1:3])
