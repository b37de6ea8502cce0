"""`kernels.forward` for the Hopper generation: tiles arrive by the tensor memory unit, warps are specialized.

Two things change. A descriptor tells the card the shape of a matrix once; whole tiles then come with one
instruction, and come as 0 where they leave the matrix. And some warps only load while others only compute,
so that neither waits for the other; that is `warp_specialize`, and it wants a single loop without branches.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import next_power_of_2
from triton.tools.tensor_descriptor import TensorDescriptor

from attncourse.variants.flash import kernels
from attncourse.variants.flash.blocks import (
    MINUS_INFINITY,
    columns_to_read,
    head_and_block,
    hide,
    store_rows,
)
from attncourse.variants.flash.kernels import LOG2E
from attncourse.variants.flash.tiles import Tile, heads_at_a_time

backward = kernels.backward


@triton.jit
def forward_kernel(
    Q, keys, values, Out, Lse, n, m, group, offset, section, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """As `kernels.forward_kernel`; `keys` and `values` are descriptors of all heads, made before the start.

    The descriptor of the queries is made here. Each of two groups of warps computes half of the rows, for which
    the compiler halves the tile, and it cannot change a descriptor that came from outside.
    """
    head, block = head_and_block(n, section, BLOCK_M)
    first = (tl.cdiv(n, BLOCK_M) - 1 - block) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    queries = tl.make_tensor_descriptor(
        Q + head * n * D, [n, D], [D, 1], [BLOCK_M, next_power_of_2(D)]
    )
    q = queries.load([first, 0])
    key_head = head.to(tl.int32) // group
    maximum = tl.full([BLOCK_M], MINUS_INFINITY, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, next_power_of_2(E)], tl.float32)
    plain, end = columns_to_read(first, first + BLOCK_M - 1, m, offset, CAUSAL)
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        k = keys.load([key_head, start, 0]).reshape([BLOCK_N, next_power_of_2(D)])
        v = values.load([key_head, start, 0]).reshape([BLOCK_N, next_power_of_2(E)])
        scores = tl.dot(q, k.T)
        columns = start + tl.arange(0, BLOCK_N)
        # Always, if specialized: the compiler does not specialize warps in a loop with a branch.
        if (CAUSAL or RAGGED) and (SPECIALIZE or start + BLOCK_N > plain):
            scores = hide(scores, rows, columns, m, offset, CAUSAL)
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
    (b, h, n, d), (g, m, e) = query.shape, value.shape[1:]
    if not (query.numel() and value.numel()):  # there is no descriptor of nothing
        return kernels.forward(query, key, value, scale, is_causal, offset)
    query, key, value = (aligned(x) for x in (query, key, value))
    output = query.new_empty(b, h, n, e)
    lse = query.new_empty(b, h, n, dtype=torch.float32)
    tile = tile or TILES[min(width for width in TILES if width >= max(d, e))]
    section = heads_at_a_time(key, value, is_causal) * (h // g)
    # The descriptor that the kernel makes lives in memory for which Triton asks when it starts the kernel.
    # Triton keeps the function, and with it whatever the function refers to: a device, but no tensor.
    device = query.device
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device=device))
    with torch.cuda.device_of(query):
        forward_kernel[(triton.cdiv(n, tile.rows) * b * h,)](
            query, tiles_of(key, tile.columns), tiles_of(value, tile.columns), output, lse,
            n, m, h // g, offset, section, scale * LOG2E.value,
            D=d, E=e, CAUSAL=is_causal, RAGGED=m % tile.columns > 0,
            BLOCK_M=tile.rows, BLOCK_N=tile.columns, SPECIALIZE=specialize,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return output, lse


def aligned(x: Tensor) -> Tensor:
    """Contiguous, and at an address that a descriptor can hold: a view may start between multiples of 16 bytes."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def tiles_of(x: Tensor, rows: int) -> TensorDescriptor:
    """All heads as (heads, length, width), to be loaded in tiles of so many rows and the padded width."""
    return TensorDescriptor.from_tensor(x.flatten(0, 1), [1, rows, next_power_of_2(x.size(-1))])
