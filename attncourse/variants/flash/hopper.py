"""`kernels.forward` for the Hopper generation: tiles arrive by the tensor memory unit, warps are specialized.

Two things change. A descriptor tells the card the shape of a matrix once; whole tiles then come with one
instruction, and come as 0 where they leave the matrix. And some warps only load while others only
compute, so that neither waits for the other; that is `warp_specialize`, and it wants a single loop.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import next_power_of_2

from attncourse.variants.flash import kernels
from attncourse.variants.flash.kernels import LOG2E, MINUS_INFINITY, is_visible, store_rows
from attncourse.variants.flash.tiles import Tile

backward = kernels.backward


@triton.jit
def matrix(base, count, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """A (count, WIDTH) matrix, to be loaded in tiles of ROWS rows and the padded width."""
    PADDED: tl.constexpr = next_power_of_2(WIDTH)
    return tl.make_tensor_descriptor(base, [count, WIDTH], [WIDTH, 1], [ROWS, PADDED])


@triton.jit
def forward_kernel(
    Q, K, V, Out, Lse, n, m, group, offset, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """As `kernels.forward_kernel`, with one loop over all columns instead of a plain and a masked one."""
    blocks = tl.cdiv(n, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    first = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    keys = matrix(K + head // group * m * D, m, D, BLOCK_N)
    values = matrix(V + head // group * m * E, m, E, BLOCK_N)
    q = matrix(Q + head * n * D, n, D, BLOCK_M).load([first, 0])
    maximum = tl.full([BLOCK_M], MINUS_INFINITY, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, next_power_of_2(E)], tl.float32)
    end = m
    if CAUSAL:
        end = tl.maximum(tl.minimum(m, first + BLOCK_M + offset), 0)
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        k = keys.load([start, 0])
        v = values.load([start, 0])
        scores = tl.dot(q, k.T)
        if CAUSAL or RAGGED:
            columns = start + tl.arange(0, BLOCK_N)
            visible = is_visible(rows, columns, n, m, offset, CAUSAL)
            scores = tl.where(visible, scores, MINUS_INFINITY)
        new_maximum = tl.maximum(maximum, tl.max(scores, 1) * scale)
        shift = tl.where(new_maximum == MINUS_INFINITY, 0.0, new_maximum)
        p = tl.exp2(scores * scale - shift[:, None])
        rescale = tl.exp2(maximum - shift)
        total = rescale * total + tl.sum(p, 1)
        mixed = tl.dot(p.to(v.dtype), v, rescale[:, None] * mixed)
        maximum = new_maximum
    total = tl.where(total == 0.0, 1.0, total)  # nothing seen: output 0 / 1, lse -inf + log2(1)
    store_rows(Out + head * n * E, mixed / total[:, None], rows, n, E)
    tl.store(Lse + head * n + rows, (maximum + tl.log2(total)) / LOG2E, mask=rows < n)


# The widest head that an entry serves. Four warps compute in a group; the compiler adds those that load.
TILES = {64: Tile(128, 128, 4, 3), 128: Tile(128, 128, 4, 2)}


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    is_causal: bool = False,
    offset: int = 0,
    tile: Tile | None = None,
    specialize: bool = True,
) -> tuple[Tensor, Tensor]:
    """`kernels.forward` in float16 or bfloat16, for heads up to 128 wide in multiples of 8.

    Args:
        tile: overrides `TILES`.
        specialize: let some warps load and others compute; ``False`` gives all warps both.

    Source: shah2024, section 3.1, for specialized warps; tillet2019 for the language.
    """
    query, key, value = (x.contiguous() for x in (query, key, value))
    (b, h, n, d), (g, m, e) = query.shape, value.shape[1:]
    output = query.new_empty(b, h, n, e)
    lse = query.new_empty(b, h, n, dtype=torch.float32)
    tile = tile or TILES[min(width for width in TILES if width >= max(d, e))]
    # Descriptors that a kernel makes live in memory that Triton asks for when it starts the kernel.
    triton.set_allocator(lambda size, *_: query.new_empty(size, dtype=torch.int8))
    with torch.cuda.device_of(query):
        forward_kernel[(triton.cdiv(n, tile.rows) * b * h,)](
            query, key, value, output, lse, n, m, h // g, offset, scale * LOG2E.value,
            D=d, E=e, CAUSAL=is_causal, RAGGED=not is_causal and m % tile.columns > 0,
            BLOCK_M=tile.rows, BLOCK_N=tile.columns, SPECIALIZE=specialize,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return output, lse
