"""The kernel of the ladder: FlashAttention's forward pass in Triton for whole blocks, each improvement a flag."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from attncourse.variants.flash.tiles import Tile, tiles_for

LOG2E = math.log2(math.e)
MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def power(x, POWERS_OF_2: tl.constexpr):
    """2^x or e^x; the card has an instruction for the first, and makes the second of it and a product."""
    return tl.exp2(x) if POWERS_OF_2 else tl.exp(x)


@triton.jit
def kernel(
    Q, K, V, Out, n, m, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    POWERS_OF_2: tl.constexpr, MASK_LESS: tl.constexpr,
    EXPONENTIALS: tl.constexpr, SOFTMAX: tl.constexpr, MIX: tl.constexpr,
):  # fmt: skip
    """One block of rows of one head. `scale` counts in powers of 2, or of e."""
    blocks = n // BLOCK_M
    head = (tl.program_id(0) // blocks).to(tl.int64)
    first = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows, width = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q = tl.load(Q + head * n * D + rows[:, None] * D + width)
    maximum = tl.full([BLOCK_M], MINUS_INFINITY, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, D], tl.float32)
    end = m
    if CAUSAL:
        end = tl.minimum(m, first + BLOCK_M)
    for start in tl.range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        there = head * m * D + columns[:, None] * D + width
        k = tl.load(K + there)
        v = tl.load(V + there)
        scores = tl.dot(q, k.T)
        if CAUSAL:  # noqa: SIM102 (known to the compiler; what follows is not)
            if not MASK_LESS or start + BLOCK_N > first + 1:
                scores = tl.where(columns[None, :] <= rows[:, None], scores, MINUS_INFINITY)
        p = scores
        if SOFTMAX:
            new_maximum = tl.maximum(maximum, tl.max(scores, 1) * scale)
            p = scores * scale - new_maximum[:, None]
            if EXPONENTIALS:
                p = power(p, POWERS_OF_2)
            rescale = power(maximum - new_maximum, POWERS_OF_2)
            total = rescale * total + tl.sum(p, 1)
            mixed = rescale[:, None] * mixed
            maximum = new_maximum
        if MIX:
            mixed = tl.dot(p.to(v.dtype), v, mixed)
        else:
            mixed += tl.sum(p, 1)[:, None]
    if SOFTMAX:
        mixed = mixed / total[:, None]
    tl.store(Out + head * n * D + rows[:, None] * D + width, mixed.to(Out.dtype.element_ty))


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool = False,
    tile: Tile | None = None,
    loads_ahead: bool = True,
    powers_of_2: bool = True,
    mask_less: bool = True,
    exponentials: bool = True,
    softmax: bool = True,
    mix: bool = True,
) -> Tensor:
    """The output of attention, if nothing is left out.

    Args:
        query, key, value: (b, h, n, d), (b, h, m, d), (b, h, m, d), contiguous; d a power of 2, lengths
            multiples of the tile, n = m if causal.
        tile: `None` takes the one of the package.
        loads_ahead: as many tiles at a time as the package has under way, instead of one.
        powers_of_2: exp2 instead of exp.
        mask_less: causal masks only where the diagonal passes.
        exponentials, softmax, mix: the work that is done.
    """
    (b, h, n, d), m = query.shape, key.size(2)
    usual = tiles_for(query, value, is_causal)[0]
    tile = (tile or usual)._replace(stages=usual.stages if loads_ahead else 1)
    assert n % tile.rows == 0 and m % tile.columns == 0 and (n == m or not is_causal)  # noqa: PT018
    output = torch.empty_like(query)
    kernel[(n // tile.rows * b * h,)](
        query, key, value, output, n, m, d**-0.5 * (LOG2E if powers_of_2 else 1.0),
        D=d, CAUSAL=is_causal, BLOCK_M=tile.rows, BLOCK_N=tile.columns,
        POWERS_OF_2=powers_of_2, MASK_LESS=mask_less, EXPONENTIALS=exponentials, SOFTMAX=softmax, MIX=mix,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return output
