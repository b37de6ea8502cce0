"""`tiled` in Triton: the same loops, with one program of the GPU for each block of rows, or of columns.

What differs from `tiled` is what a GPU asks for. A tile lives in registers and shared memory. Powers of 2
replace powers of e, because the card has an instruction for them. Columns are compared with a bound only
where one can be hidden: on the diagonal and at the ragged edge. That asks for a jump in the loop (BRANCH),
which Hopper takes well. For Ampere, a jump between two products keeps the compiler from seeing that the
second needs the first, and it spends registers and copies on that; comparing in every turn is cheaper there.

The environment variable TRITON_INTERPRET=1, set before Triton is imported, runs everything on the CPU, slowly.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import next_power_of_2

from attncourse.variants.flash.blocks import (
    MINUS_INFINITY,
    columns_to_read,
    head_and_block,
    hide,
    load_numbers,
    load_rows,
    store_rows,
)
from attncourse.variants.flash.tiles import Tile, generation, heads_at_a_time, tiles_for

LOG2E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x * LOG2E)


@triton.jit
def forward_kernel(
    Q, K, V, Out, Lse, n, m, group, offset, section, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """Output and log-sum-exp of one block of rows of one query head. Scores count in powers of 2."""
    head, block = head_and_block(n, section, BLOCK_M)  # the head counts through the samples as well
    # Block 0 holds the last rows: if causal, those that read most.
    first = (tl.cdiv(n, BLOCK_M) - 1 - block) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    K += head // group * m * D
    V += head // group * m * E
    q = load_rows(Q + head * n * D, rows, n, D, True)
    maximum = tl.full([BLOCK_M], MINUS_INFINITY, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, next_power_of_2(E)], tl.float32)
    plain, end = columns_to_read(first, first + BLOCK_M - 1, m, offset, CAUSAL)
    for start in tl.range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        k = load_rows(K, columns, m, D, RAGGED)
        v = load_rows(V, columns, m, E, RAGGED)
        scores = tl.dot(q, k.T, input_precision=PRECISION)
        if (CAUSAL or RAGGED) and (not BRANCH or start + BLOCK_N > plain):
            scores = hide(scores, rows, columns, m, offset, CAUSAL)
        # The scale is positive, so it can wait: a multiply-add instead of a product and a sum.
        new_maximum = tl.maximum(maximum, tl.max(scores, 1) * scale)
        shift = tl.where(new_maximum == MINUS_INFINITY, 0.0, new_maximum)
        p = tl.exp2(scores * scale - shift[:, None])
        rescale = tl.exp2(maximum - shift)
        total = rescale * total + tl.sum(p, 1)
        mixed = tl.dot(p.to(v.dtype), v, rescale[:, None] * mixed, input_precision=PRECISION)
        maximum = new_maximum
    total = tl.where(total == 0.0, 1.0, total)  # nothing seen: output 0 / 1, lse -inf + log2(1)
    store_rows(Out + head * n * E, mixed / total[:, None], rows, n, E)
    tl.store(Lse + head * n + rows, (maximum + tl.log2(total)) / LOG2E, mask=rows < n)


@triton.jit
def query_kernel(
    Q, K, V, Out, Lse, DOut, DLse, Shift, Delta, DQ, n, m, group, offset, section, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """Gradient of one block of queries. On the way it leaves shift and delta for `key_value_kernel`.

    The shift is lse in powers of 2, turned once a row; of an empty row it is infinite, as exp2(-inf) is 0.
    """
    head, block = head_and_block(n, section, BLOCK_M)
    first = (tl.cdiv(n, BLOCK_M) - 1 - block) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    K += head // group * m * D
    V += head // group * m * E
    q = load_rows(Q + head * n * D, rows, n, D, True)
    do = load_rows(DOut + head * n * E, rows, n, E, True)
    o = load_rows(Out + head * n * E, rows, n, E, True)
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    delta -= load_numbers(DLse + head * n, rows, n, True)
    tl.store(Delta + head * n + rows, delta, mask=rows < n)
    shift = load_numbers(Lse + head * n, rows, n, True) * LOG2E
    shift = tl.where(shift == MINUS_INFINITY, -MINUS_INFINITY, shift)
    tl.store(Shift + head * n + rows, shift, mask=rows < n)
    dq = tl.zeros([BLOCK_M, next_power_of_2(D)], tl.float32)
    plain, end = columns_to_read(first, first + BLOCK_M - 1, m, offset, CAUSAL)
    for start in tl.range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        k = load_rows(K, columns, m, D, RAGGED)
        v = load_rows(V, columns, m, E, RAGGED)
        scores = tl.dot(q, k.T, input_precision=PRECISION)
        if (CAUSAL or RAGGED) and (not BRANCH or start + BLOCK_N > plain):
            scores = hide(scores, rows, columns, m, offset, CAUSAL)
        p = tl.exp2(scores * scale - shift[:, None])
        dp = tl.dot(do, v.T, input_precision=PRECISION)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    store_rows(DQ + head * n * D, dq * (scale / LOG2E), rows, n, D)


@triton.jit
def key_value_kernel(
    Q, K, V, Shift, DOut, Delta, DK, DV, n, m, group, offset, section, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys and values, summed over the query heads that read them."""
    key_head, block = head_and_block(m, section, BLOCK_N)  # if causal, the first keys are read most
    first = block * BLOCK_N
    columns = first + tl.arange(0, BLOCK_N)
    k = load_rows(K + key_head * m * D, columns, m, D, True)
    v = load_rows(V + key_head * m * E, columns, m, E, True)
    dk = tl.zeros([BLOCK_N, next_power_of_2(D)], tl.float32)
    dv = tl.zeros([BLOCK_N, next_power_of_2(E)], tl.float32)
    # Rows before `begin` see none of these columns, rows from `plain` on see all of them. No edge is
    # masked: a row that does not exist adds 0, a column that does not exist is not stored.
    begin, plain = 0, 0
    if CAUSAL:
        begin = tl.maximum(first - offset, 0) // BLOCK_M * BLOCK_M
        plain = tl.maximum(first + BLOCK_N - 1 - offset, 0)
    for member in tl.range(0, group):
        head = key_head * group + member
        for start in tl.range(begin, n, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            q = load_rows(Q + head * n * D, rows, n, D, RAGGED)
            do = load_rows(DOut + head * n * E, rows, n, E, RAGGED)
            shift = load_numbers(Shift + head * n, rows, n, RAGGED)
            # Transposed, so that p^T and ds^T are ready for the products that follow.
            scores = tl.dot(k, q.T, input_precision=PRECISION)
            if CAUSAL and (not BRANCH or start < plain):
                visible = columns[:, None] <= rows[None, :] + offset
                scores = tl.where(visible, scores, MINUS_INFINITY)
            p = tl.exp2(scores * scale - shift[None, :])
            dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)
            dp = tl.dot(v, do.T, input_precision=PRECISION)
            delta = load_numbers(Delta + head * n, rows, n, RAGGED)
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)
    store_rows(DK + key_head * m * D, dk * (scale / LOG2E), columns, m, D)
    store_rows(DV + key_head * m * E, dv, columns, m, E)


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    is_causal: bool = False,
    offset: int = 0,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """`tiled.forward` on the GPU: output in the dtype of the inputs, log-sum-exp in float32.

    Args:
        query, key, value: (b, h, n, d), (b, g, m, d), (b, g, m, e) in float16, bfloat16 or float32;
            d and e up to 256. Copied if they are not contiguous.
        scale: positive.
        is_causal: query i reads keys 0..i + offset.
        offset: position of query 0 among the keys.
        tile: overrides `TILES`.

    Source: dao2023, algorithm 1; tillet2019 for the language.
    """
    query, key, value = (x.contiguous() for x in (query, key, value))
    (b, h, n, d), (g, m, e) = query.shape, value.shape[1:]
    output = query.new_empty(b, h, n, e)
    lse = query.new_empty(b, h, n, dtype=torch.float32)
    tile = tile or tiles_for(query, value, is_causal)[0]
    section = heads_at_a_time(key, value, is_causal) * (h // g)
    with torch.cuda.device_of(query):
        forward_kernel[(triton.cdiv(n, tile.rows) * b * h,)](
            query, key, value, output, lse, n, m, h // g, offset, section, scale * LOG2E.value,
            D=d, E=e, CAUSAL=is_causal, RAGGED=m % tile.columns > 0, PRECISION=precision(),
            BLOCK_M=tile.rows, BLOCK_N=tile.columns, BRANCH=generation(query) == "hopper",
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return output, lse


def backward(
    grad_output: Tensor,
    grad_lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    scale: float,
    is_causal: bool = False,
    offset: int = 0,
    tiles: tuple[Tile, Tile] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """`tiled.backward` on the GPU, in two kernels: rows first, which know delta, then columns.

    Each tile of weights is computed twice, once in either kernel, so that no two programs add to the same
    gradient. The result is therefore the same, bit for bit, on every run.

    Cost: 3.5 times the FLOPs of `forward`.
    Source: dao2023, algorithm 2.
    """
    # Gradients too: that of lse.sum() is a single number that poses as a tensor, with strides of 0.
    inputs = (query, key, value, grad_output, grad_lse)
    query, key, value, do, dlse = (x.contiguous() for x in inputs)
    (b, h, n, d), (g, m, e) = query.shape, value.shape[1:]
    dq, dk, dv = (torch.empty_like(x) for x in (query, key, value))
    shift, delta = torch.empty_like(lse), torch.empty_like(lse)
    rows, columns = tiles or tiles_for(query, value, is_causal)[1:]
    sizes = (n, m, h // g, offset)
    fixed = {"D": d, "E": e, "CAUSAL": is_causal, "PRECISION": precision()}
    fixed["BRANCH"] = generation(query) == "hopper"
    with torch.cuda.device_of(query):
        section = heads_at_a_time(key, value, is_causal) * (h // g)
        query_kernel[(triton.cdiv(n, rows.rows) * b * h,)](
            query, key, value, output, lse, do, dlse, shift, delta, dq, *sizes, section, scale * LOG2E.value,
            **fixed, RAGGED=m % rows.columns > 0, BLOCK_M=rows.rows, BLOCK_N=rows.columns,
            num_warps=rows.warps, num_stages=rows.stages,
        )  # fmt: skip
        section = max(1, heads_at_a_time(query, do, is_causal) // (h // g))
        key_value_kernel[(triton.cdiv(m, columns.columns) * b * g,)](
            query, key, value, shift, do, delta, dk, dv, *sizes, section, scale * LOG2E.value,
            **fixed, RAGGED=n % columns.rows > 0, BLOCK_M=columns.rows, BLOCK_N=columns.columns,
            num_warps=columns.warps, num_stages=columns.stages,
        )  # fmt: skip
    return dq, dk, dv


def precision() -> str:
    """How float32 is multiplied: as ``torch.set_float32_matmul_precision`` says."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
