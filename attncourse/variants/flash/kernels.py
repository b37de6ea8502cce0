"""`tiled` in Triton: the same loops, with one program of the GPU for each block of rows, or of columns.

What differs from `tiled` is what a GPU asks for. A tile lives in registers and shared memory. Powers of 2
replace powers of e, because the card has an instruction for them. A mask is computed only where it can
hide something: on the diagonal and at the ragged edge. The environment variable TRITON_INTERPRET=1, set
before Triton is imported, runs everything on the CPU, slowly.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import next_power_of_2

from attncourse.variants.flash.tiles import Tile, tiles_for

LOG2E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x * LOG2E)
MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def load_rows(base, rows, count, WIDTH: tl.constexpr, EDGE: tl.constexpr):
    """These rows of a (count, WIDTH) matrix, the width padded with 0 to a power of 2.

    EDGE: a row may lie outside the matrix, and is then 0.
    """
    PADDED: tl.constexpr = next_power_of_2(WIDTH)
    columns = tl.arange(0, PADDED)
    address = base + rows[:, None] * WIDTH + columns
    if EDGE:
        return tl.load(address, mask=(rows[:, None] < count) & (columns < WIDTH), other=0.0)
    if PADDED > WIDTH:
        return tl.load(address, mask=columns < WIDTH, other=0.0)
    return tl.load(address)


@triton.jit
def store_rows(base, tile, rows, count, WIDTH: tl.constexpr):
    """The counterpart of `load_rows`; nothing outside the matrix is written."""
    columns = tl.arange(0, next_power_of_2(WIDTH))
    inside = (rows[:, None] < count) & (columns < WIDTH)
    address = base + rows[:, None] * WIDTH + columns
    tl.store(address, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def split_columns(first, last, m, offset, CAUSAL: tl.constexpr, BLOCK_N: tl.constexpr):
    """For rows first..last: the number of columns that need no mask, and of columns that are read."""
    plain, end = m, m
    if CAUSAL:
        plain = tl.maximum(tl.minimum(m, first + offset + 1), 0)
        end = tl.maximum(tl.minimum(m, last + offset + 1), 0)
    return plain // BLOCK_N * BLOCK_N, end


@triton.jit
def is_visible(rows, columns, n, m, offset, CAUSAL: tl.constexpr):
    """visible(i, j) = both exist, and j <= i + offset if causal."""
    visible = (rows[:, None] < n) & (columns[None, :] < m)
    if CAUSAL:
        visible = visible & (columns[None, :] <= rows[:, None] + offset)
    return visible


@triton.jit
def forward_kernel(
    Q, K, V, Out, Lse, n, m, group, offset, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Output and log-sum-exp of one block of rows of one query head. Scores count in powers of 2."""
    blocks = tl.cdiv(n, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)  # counts through the samples as well
    # The longest causal rows start first.
    first = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    K += head // group * m * D
    V += head // group * m * E
    q = load_rows(Q + head * n * D, rows, n, D, True)
    maximum = tl.full([BLOCK_M], MINUS_INFINITY, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, next_power_of_2(E)], tl.float32)
    plain, end = split_columns(first, first + BLOCK_M - 1, m, offset, CAUSAL, BLOCK_N)
    for MASKED in tl.static_range(2):
        for start in tl.range(plain if MASKED else 0, end if MASKED else plain, BLOCK_N):
            columns = start + tl.arange(0, BLOCK_N)
            k = load_rows(K, columns, m, D, MASKED)
            v = load_rows(V, columns, m, E, MASKED)
            scores = tl.dot(q, k.T, input_precision=PRECISION)
            if MASKED:
                visible = is_visible(rows, columns, n, m, offset, CAUSAL)
                scores = tl.where(visible, scores, MINUS_INFINITY)
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
def load_lse(Lse, rows, n):
    """Log-sum-exp in powers of 2; an empty row gets 0, because exp2(-inf - 0) is 0."""
    lse = tl.load(Lse + rows, mask=rows < n, other=0.0) * LOG2E
    return tl.where(lse == MINUS_INFINITY, 0.0, lse)


@triton.jit
def query_kernel(
    Q, K, V, Out, Lse, DOut, DLse, Delta, DQ, n, m, group, offset, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradient of one block of queries. On the way it leaves delta for `key_value_kernel`."""
    blocks = tl.cdiv(n, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    first = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    K += head // group * m * D
    V += head // group * m * E
    q = load_rows(Q + head * n * D, rows, n, D, True)
    do = load_rows(DOut + head * n * E, rows, n, E, True)
    o = load_rows(Out + head * n * E, rows, n, E, True)
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    delta -= tl.load(DLse + head * n + rows, mask=rows < n, other=0.0)
    tl.store(Delta + head * n + rows, delta, mask=rows < n)
    lse = load_lse(Lse + head * n, rows, n)
    dq = tl.zeros([BLOCK_M, next_power_of_2(D)], tl.float32)
    plain, end = split_columns(first, first + BLOCK_M - 1, m, offset, CAUSAL, BLOCK_N)
    for MASKED in tl.static_range(2):
        for start in tl.range(plain if MASKED else 0, end if MASKED else plain, BLOCK_N):
            columns = start + tl.arange(0, BLOCK_N)
            k = load_rows(K, columns, m, D, MASKED)
            v = load_rows(V, columns, m, E, MASKED)
            scores = tl.dot(q, k.T, input_precision=PRECISION)
            if MASKED:
                visible = is_visible(rows, columns, n, m, offset, CAUSAL)
                scores = tl.where(visible, scores, MINUS_INFINITY)
            p = tl.exp2(scores * scale - lse[:, None])
            dp = tl.dot(do, v.T, input_precision=PRECISION)
            ds = p * (dp - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    store_rows(DQ + head * n * D, dq * (scale / LOG2E), rows, n, D)


@triton.jit
def key_value_kernel(
    Q, K, V, Lse, DOut, Delta, DK, DV, n, m, group, offset, scale,
    D: tl.constexpr, E: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys and values, summed over the query heads that read them."""
    blocks = tl.cdiv(m, BLOCK_N)
    key_head = (tl.program_id(0) // blocks).to(tl.int64)
    first = tl.program_id(0) % blocks * BLOCK_N
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
        plain = tl.cdiv(tl.maximum(first + BLOCK_N - 1 - offset, 0), BLOCK_M) * BLOCK_M
    for member in tl.range(0, group):
        head = key_head * group + member
        for MASKED in tl.static_range(1 + CAUSAL):
            for start in tl.range(
                begin if MASKED else plain, tl.minimum(plain, n) if MASKED else n, BLOCK_M
            ):
                rows = start + tl.arange(0, BLOCK_M)
                q = load_rows(Q + head * n * D, rows, n, D, RAGGED)
                do = load_rows(DOut + head * n * E, rows, n, E, RAGGED)
                lse = load_lse(Lse + head * n, rows, n)
                delta = tl.load(Delta + head * n + rows, mask=rows < n, other=0.0)
                # Transposed, so that p^T and ds^T are ready for the products that follow.
                scores = tl.dot(k, q.T, input_precision=PRECISION)
                if MASKED:
                    visible = columns[:, None] <= rows[None, :] + offset
                    scores = tl.where(visible, scores, MINUS_INFINITY)
                p = tl.exp2(scores * scale - lse[None, :])
                dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)
                dp = tl.dot(v, do.T, input_precision=PRECISION)
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
    with torch.cuda.device_of(query):
        forward_kernel[(triton.cdiv(n, tile.rows) * b * h,)](
            query, key, value, output, lse, n, m, h // g, offset, scale * LOG2E.value,
            D=d, E=e, CAUSAL=is_causal, PRECISION=precision(),
            BLOCK_M=tile.rows, BLOCK_N=tile.columns, num_warps=tile.warps, num_stages=tile.stages,
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
    delta = torch.empty_like(lse)
    rows, columns = tiles or tiles_for(query, value, is_causal)[1:]
    sizes = (n, m, h // g, offset, scale * LOG2E.value)
    fixed = {"D": d, "E": e, "CAUSAL": is_causal, "PRECISION": precision()}
    with torch.cuda.device_of(query):
        query_kernel[(triton.cdiv(n, rows.rows) * b * h,)](
            query, key, value, output, lse, do, dlse, delta, dq, *sizes,
            **fixed, BLOCK_M=rows.rows, BLOCK_N=rows.columns,
            num_warps=rows.warps, num_stages=rows.stages,
        )  # fmt: skip
        key_value_kernel[(triton.cdiv(m, columns.columns) * b * g,)](
            query, key, value, lse, do, delta, dk, dv, *sizes,
            **fixed, RAGGED=n % columns.rows > 0, BLOCK_M=columns.rows, BLOCK_N=columns.columns,
            num_warps=columns.warps, num_stages=columns.stages,
        )  # fmt: skip
    return dq, dk, dv


def precision() -> str:
    """How float32 is multiplied: as ``torch.set_float32_matmul_precision`` says."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
