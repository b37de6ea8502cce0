"""FlashAttention's forward pass for Hopper, with every wait written out: Gluon, the layer below Triton.

One warp only loads. Groups of four warps compute, each 64 rows of queries: a group starts the scores of the next tile
and, while the tensor cores are at that and at the mix of the last one, takes exponentials. Barriers in shared memory
say "this tile has arrived" and "this tile may be overwritten". `gpu.gluon_cpu` runs the same source on a CPU.

It competes in the benchmark. Into the package it comes when a file in benchmarks/results shows that it wins.
"""

import math
from typing import NamedTuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LOG2E = 1.4426950408889634
LN2 = gl.constexpr(0.6931471805599453)
MINUS_INFINITY = gl.constexpr(float("-inf"))


@gluon.jit
def turns_of(sizes):
    """Tiles of queries of this program: its own, then every `num_programs`-th."""
    n, m, heads, group, offset, section, tiles = sizes
    return (tiles - gl.program_id(0) + gl.num_programs(0) - 1) // gl.num_programs(0)


@gluon.jit
def place(turn, sizes, CAUSAL: gl.constexpr, ROWS: gl.constexpr, BLOCK_N: gl.constexpr):
    """Head and first row of a tile; how many blocks of columns it reads, and how many of them need a mask.

    So many heads as `section` says are worked on at a time, longest rows first: their keys and values stay in
    the L2 cache.
    """
    n, m, heads, group, offset, section, tiles = sizes
    tile = turn * gl.num_programs(0) + gl.program_id(0)
    blocks = gl.cdiv(n, ROWS)
    before = tile // (section * blocks) * section
    rest = tile % (section * blocks)
    wide = gl.minimum(section, heads - before)
    head = before + rest % wide
    first = (blocks - 1 - rest // wide) * ROWS
    end = m
    plain = m
    if CAUSAL:
        end = gl.minimum(m, first + ROWS + offset)
        plain = gl.minimum(m, first + offset + 1)
    count = gl.maximum(gl.cdiv(end, BLOCK_N), 1)  # one at least, even if all of it is hidden
    masked = count - gl.maximum(plain, 0) // BLOCK_N
    return head, first, count, masked


@gluon.jit
def load(matrices, head, start, ring, number):
    """Order tile `number` of a ring as soon as its place is free."""
    smem, full, empty = ring
    STAGES: gl.constexpr = smem.shape[0]
    stage = number % STAGES
    mbarrier.wait(empty.index(stage), (number // STAGES & 1) ^ 1)
    mbarrier.expect(full.index(stage), matrices.block_type.nbytes)
    tma.async_copy_global_to_shared(
        matrices, [head, start, 0], full.index(stage), smem.index(stage)
    )


@gluon.jit
def load_partition(inputs, rings, sizes, CAUSAL: gl.constexpr, GROUPS: gl.constexpr):
    """What the loading warp does: queries once a tile, then keys and values, from the last columns to the first."""
    queries, keys, values = inputs
    q_ring, k_ring, v_ring = rings
    q_smem, q_full, q_empty = q_ring
    BLOCK_N: gl.constexpr = k_ring[0].shape[2]
    ROWS: gl.constexpr = 64 * GROUPS
    loaded = 0
    for turn in range(turns_of(sizes)):
        head, first, count, masked = place(turn, sizes, CAUSAL, ROWS, BLOCK_N)
        key_head = head // sizes[3]
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, GROUPS * queries.block_type.nbytes)
        for part in gl.static_range(GROUPS):
            rows = first + 64 * part
            tma.async_copy_global_to_shared(queries, [head, rows, 0], q_full, q_smem.index(part))
        # Each tile of keys before the values of the one before it, which is the order in which they are used.
        for j in range(count + 1):
            if j < count:
                load(keys, key_head, (count - 1 - j) * BLOCK_N, k_ring, loaded + j)
            if j > 0:
                load(values, key_head, (count - j) * BLOCK_N, v_ring, loaded + j - 1)
        loaded += count


@gluon.jit
def hide(scores, rows, start, sizes, CAUSAL: gl.constexpr):
    """Minus infinity where a column lies behind the end, or in the future of its row."""
    n, m, heads, group, offset, section, tiles = sizes
    columns = start + gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, scores.type.layout))
    limit = rows * 0 + m
    if CAUSAL:
        limit = gl.minimum(limit, rows + offset + 1)
    return gl.where(columns[None, :] < limit[:, None], scores, MINUS_INFINITY)


@gluon.jit
def softmax_step(scores, maximum, total, scale):
    """The weights of one block, and what they change: maximum, total, and the factor for what was mixed before."""
    new_maximum = gl.maximum(maximum, gl.max(scores, 1) * scale)
    shift = gl.where(new_maximum == MINUS_INFINITY, 0.0, new_maximum)
    weights = gl.exp2(scores * scale - shift[:, None])
    rescale = gl.exp2(maximum - shift)
    return weights, new_maximum, rescale * total + gl.sum(weights, 1), rescale


@gluon.jit
def start_scores(queries, k_smem, stage):
    """Begin the product of queries and one tile of keys."""
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    D: gl.constexpr = k_smem.shape[3]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    nothing = gl.zeros([64, BLOCK_N], gl.float32, layout)
    k = k_smem.index(stage).reshape([BLOCK_N, D])
    return warpgroup_mma(queries, k.permute((1, 0)), nothing, use_acc=False, is_async=True)


@gluon.jit
def start_mix(weights, v_smem, stage, mixed):
    """Begin to add the values of one tile, weighted."""
    v = v_smem.index(stage).reshape([v_smem.shape[2], v_smem.shape[3]])
    return warpgroup_mma(weights, v, mixed, is_async=True)


@gluon.jit
def step(
    queries, state, rings, turn_bars, used, taken, more, masked, scale, rows, start, sizes,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr, PART: gl.constexpr, GROUPS: gl.constexpr, TAKE_TURNS: gl.constexpr,
):  # fmt: skip
    """Scores of block `used`, and the mix of the block before it; exponentials while the latter runs."""
    weights, mixed, maximum, total = state
    q_ring, k_ring, v_ring = rings
    k_smem, k_full, k_empty = k_ring
    v_smem, v_full, v_empty = v_ring
    STAGES: gl.constexpr = k_smem.shape[0]
    stage = used % STAGES
    before = (used - 1) % STAGES
    if TAKE_TURNS:
        mbarrier.wait(turn_bars.index(PART), (taken + 1 if PART == 0 else taken) & 1)
    scores = start_scores(queries, k_smem, stage)
    mbarrier.wait(v_full.index(before), (used - 1) // STAGES & 1)
    mixed = start_mix(weights, v_smem, before, mixed)
    if TAKE_TURNS:
        mbarrier.arrive(turn_bars.index((PART + 1) % GROUPS), count=1)
    scores = warpgroup_mma_wait(1, deps=(scores,))
    mbarrier.arrive(k_empty.index(stage), count=1)
    if CAUSAL or RAGGED:  # noqa: SIM102 (known to the compiler; what follows is not)
        if masked:
            scores = hide(scores, rows, start, sizes, CAUSAL)
    p, maximum, total, rescale = softmax_step(scores, maximum, total, scale)
    # Here, and not where the next block begins, because the assembler moves no exponential across it.
    mbarrier.wait(k_full.index((used + 1) % STAGES), (used + 1) // STAGES & 1, pred=more)
    mixed = warpgroup_mma_wait(0, deps=(mixed,))
    mbarrier.arrive(v_empty.index(before), count=1)
    mix_layout: gl.constexpr = mixed.type.layout
    mixed = mixed * gl.convert_layout(rescale, gl.SliceLayout(1, mix_layout))[:, None]
    weights = gl.convert_layout(p.to(weights.dtype), gl.DotOperandLayout(0, mix_layout, 2))
    return weights, mixed, maximum, total


@gluon.jit
def compute_partition(
    given, CAUSAL: gl.constexpr, RAGGED: gl.constexpr, GROUPS: gl.constexpr, TAKE_TURNS: gl.constexpr, PART: gl.constexpr,
):  # fmt: skip
    """What one group of warps does: 64 rows of each tile."""
    outputs, Lse, o_smem, rings, turn_bars, sizes, scale = given
    q_ring, k_ring, v_ring = rings
    q_smem, q_full, q_empty = q_ring
    k_smem, k_full, k_empty = k_ring
    v_smem, v_full, v_empty = v_ring
    n = sizes[0]
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    E: gl.constexpr = v_smem.shape[3]
    ROWS: gl.constexpr = 64 * GROUPS
    row_layout: gl.constexpr = gl.SliceLayout(
        1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    )
    mix_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, E, 16])
    used = 0
    for turn in range(turns_of(sizes)):
        head, first, count, masked = place(turn, sizes, CAUSAL, ROWS, BLOCK_N)
        rows = first + 64 * PART + gl.arange(0, 64, layout=row_layout)
        maximum = gl.full([64], MINUS_INFINITY, gl.float32, row_layout)
        total = gl.zeros([64], gl.float32, row_layout)
        mixed = gl.zeros([64, E], gl.float32, mix_layout)
        queries = q_smem.index(PART).reshape([64, k_smem.shape[3]])
        mbarrier.wait(q_full, turn & 1)
        # The last columns come first: theirs are the masks.
        stage = used % STAGES
        start = (count - 1) * BLOCK_N
        mbarrier.wait(k_full.index(stage), used // STAGES & 1)
        scores = start_scores(queries, k_smem, stage)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        mbarrier.arrive(k_empty.index(stage), count=1)
        if CAUSAL or RAGGED:
            scores = hide(scores, rows, start, sizes, CAUSAL)
        p, maximum, total, rescale = softmax_step(scores, maximum, total, scale)
        weights = gl.convert_layout(p.to(q_smem.dtype), gl.DotOperandLayout(0, mix_layout, 2))
        used += 1
        mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1, pred=count > 1)
        for j in range(1, count):
            start = (count - 1 - j) * BLOCK_N
            state = (weights, mixed, maximum, total)
            weights, mixed, maximum, total = step(
                queries, state, rings, turn_bars, used, used - turn - 1, j + 1 < count, j < masked,
                scale, rows, start, sizes, CAUSAL, RAGGED, PART, GROUPS, TAKE_TURNS,
            )  # fmt: skip
            used += 1
        mbarrier.arrive(q_empty, count=1)
        stage = (used - 1) % STAGES
        mbarrier.wait(v_full.index(stage), (used - 1) // STAGES & 1)
        mixed = start_mix(weights, v_smem, stage, mixed)
        mixed = warpgroup_mma_wait(0, deps=(mixed,))
        mbarrier.arrive(v_empty.index(stage), count=1)
        total = gl.where(total == 0.0, 1.0, total)  # nothing seen: output 0 / 1, lse -inf + log2(1)
        share = gl.convert_layout(1.0 / total, gl.SliceLayout(1, mix_layout))
        tma.store_wait(0)  # of the tile before
        tile = o_smem.index(PART)
        tile.reshape([64, E]).store((mixed * share[:, None]).to(q_smem.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(outputs, [head, first + 64 * PART, 0], tile)
        lse = (maximum + gl.log2(total)) * LN2
        gl.store(Lse + gl.cast(head, gl.int64) * n + rows, lse, mask=rows < n)
    tma.store_wait(0)


@gluon.jit
def barriers(count: gl.constexpr, arrivals: gl.constexpr):
    """So many barriers, each of which opens after so many arrivals."""
    bars = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


# Sizes compile once for all values: nothing here becomes faster if one of them is a multiple of 16.
@gluon.jit(do_not_specialize=["n", "m", "heads", "group", "offset", "section", "tiles"])
def forward_kernel(
    queries, keys, values, outputs, Lse, n, m, heads, group, offset, section, scale, tiles,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
    STAGES: gl.constexpr, GROUPS: gl.constexpr, TAKE_TURNS: gl.constexpr,
):  # fmt: skip
    """Descriptors of (heads, length, width); `tiles` blocks of 64 * GROUPS rows over all heads."""
    DTYPE: gl.constexpr = queries.dtype
    q_smem = gl.allocate_shared_memory(DTYPE, [GROUPS] + queries.block_type.shape, queries.layout)
    k_smem = gl.allocate_shared_memory(DTYPE, [STAGES] + keys.block_type.shape, keys.layout)
    v_smem = gl.allocate_shared_memory(DTYPE, [STAGES] + values.block_type.shape, values.layout)
    o_smem = gl.allocate_shared_memory(DTYPE, [GROUPS] + outputs.block_type.shape, outputs.layout)
    # A ring: places for tiles; "it has arrived"; "all groups have read it".
    q_ring = (q_smem, barriers(1, 1).index(0), barriers(1, GROUPS).index(0))
    k_ring = (k_smem, barriers(STAGES, 1), barriers(STAGES, GROUPS))
    v_ring = (v_smem, barriers(STAGES, 1), barriers(STAGES, GROUPS))
    rings = (q_ring, k_ring, v_ring)
    turn_bars = barriers(GROUPS, 1)
    sizes = (n, m, heads, group, offset, section, tiles)
    inputs = (queries, keys, values)
    given = (outputs, Lse, o_smem, rings, turn_bars, sizes, scale)
    # Constants keep their nature only where they stand in the call itself.
    if GROUPS == 2:  # behind the partitions: warps and registers of all but the first
        gl.warp_specialize(
            [
                (compute_partition, (given, CAUSAL, RAGGED, GROUPS, TAKE_TURNS, 0)),
                (compute_partition, (given, CAUSAL, RAGGED, GROUPS, TAKE_TURNS, 1)),
                (load_partition, (inputs, rings, sizes, CAUSAL, GROUPS)),
            ],
            [4, 1], [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (compute_partition, (given, CAUSAL, RAGGED, GROUPS, TAKE_TURNS, 0)),
                (compute_partition, (given, CAUSAL, RAGGED, GROUPS, TAKE_TURNS, 1)),
                (compute_partition, (given, CAUSAL, RAGGED, GROUPS, TAKE_TURNS, 2)),
                (load_partition, (inputs, rings, sizes, CAUSAL, GROUPS)),
            ],
            [4, 4, 1], [160, 160, 24],
        )  # fmt: skip


class Setting(NamedTuple):
    """Columns of a tile; tiles of keys that fit in; groups of 64 rows; whether groups take turns; whether a
    program does many tiles (None: if they all take the same time, else the card deals them out better)."""

    columns: int
    stages: int
    groups: int
    take_turns: bool = False
    persistent: bool | None = None


# The widest head that an entry serves.
SETTINGS = {64: Setting(128, 2, 3), 128: Setting(128, 2, 2)}
L2_SHARE = 32 * 2**20  # bytes of keys and values that are to stay in the cache


def forward(query, key, value, scale, is_causal=False, offset=0, setting=None):
    """`kernels.forward` in float16 or bfloat16, for heads up to 128 wide in multiples of 8.

    Args:
        setting: overrides `SETTINGS`.

    Source: shah2024, for groups of warps that compute while products run.
    """
    query, key, value = (aligned(x) for x in (query, key, value))
    (b, h, n, d), (g, m, e) = query.shape, value.shape[1:]
    output = query.new_empty(b, h, n, e)
    lse = query.new_empty(b, h, n, dtype=torch.float32)
    if not m:
        return output.zero_(), lse.fill_(-math.inf)
    if not lse.numel():
        return output, lse
    setting = setting or SETTINGS[min(width for width in SETTINGS if width >= max(d, e))]
    tiles = triton.cdiv(n, 64 * setting.groups) * b * h
    section = (
        max(1, L2_SHARE // (m * (d + e) * query.element_size())) * (h // g) if is_causal else 1
    )
    stays = not is_causal if setting.persistent is None else setting.persistent
    with torch.cuda.device_of(query):
        programs = min(tiles, processors(query)) if stays else tiles
        forward_kernel[(programs,)](
            matrices(query, 64), matrices(key, setting.columns), matrices(value, setting.columns), matrices(output, 64),
            lse, n, m, b * h, h // g, offset, section, scale * LOG2E, tiles,
            CAUSAL=is_causal, RAGGED=m % setting.columns > 0, STAGES=setting.stages, GROUPS=setting.groups,
            TAKE_TURNS=setting.take_turns, num_warps=4, maxnreg=168 if setting.groups == 2 else 128,
        )  # fmt: skip
    return output, lse


def aligned(x):
    """Contiguous, and at an address that descriptors can hold."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def matrices(x, rows):
    """All heads as (heads, length, width), to be moved in tiles of so many rows and the padded width."""
    block = [1, rows, triton.next_power_of_2(x.size(-1))]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)  # both dtypes have two bytes
    return TensorDescriptor.from_tensor(x.flatten(0, 1), block, layout)


def processors(x):
    return torch.cuda.get_device_properties(x.device).multi_processor_count
