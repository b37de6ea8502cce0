"""Right kernels for the exercise attention_tile. Imported only where Triton runs."""

import triton
import triton.language as tl


@triton.jit
def dots(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys, features = tl.arange(0, BLOCK_N), tl.arange(0, D)
    at, inside = rows[:, None] * D + features[None, :], rows[:, None] < n
    at_key, exists = keys[:, None] * 2 * D + features[None, :], keys[:, None] < m
    q = tl.load(Q + at, mask=inside, other=0.0)
    k = tl.load(KV + at_key, mask=exists, other=0.0)
    v = tl.load(KV + D + at_key, mask=exists, other=0.0)
    scores = tl.where(keys[None, :] < m, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    top = tl.max(scores, 1)
    p = tl.exp(scores - top[:, None])
    total = tl.sum(p, 1)
    tl.store(Out + at, tl.dot(p, v) / total[:, None], mask=inside)
    tl.store(Lse + rows, top + tl.log(total), mask=rows < n)


@triton.jit
def products_and_sums(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Row after row, without a matrix product."""
    keys, features = tl.arange(0, BLOCK_N), tl.arange(0, D)
    cells = KV + keys[:, None] * (2 * D) + features
    k = tl.load(cells, mask=keys[:, None] < m, other=0.0)
    v = tl.load(cells + D, mask=keys[:, None] < m, other=0.0)
    first = tl.program_id(0) * BLOCK_M
    for row in range(first, tl.minimum(first + BLOCK_M, n)):
        q = tl.load(Q + row * D + features)
        scores = tl.where(keys < m, tl.sum(k * q[None, :], 1) * scale, -float("inf"))
        top = tl.max(scores, 0)
        p = tl.exp(scores - top)
        tl.store(Out + row * D + features, tl.sum(p[:, None] * v, 0) / tl.sum(p, 0))
        tl.store(Lse + row, top + tl.log(tl.sum(p, 0)))


@triton.jit
def powers_of_2(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    LOG2E: tl.constexpr = 1.4426950408889634
    i = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    j, c = tl.arange(0, BLOCK_N), tl.arange(0, D)[None, :]
    q = tl.load(Q + i * D + c, mask=i < n) * (scale * LOG2E)
    k = tl.load(KV + j[None, :] * 2 * D + tl.arange(0, D)[:, None], mask=j[None, :] < m, other=0.0)
    scores = tl.dot(q, k)
    scores += tl.where(j < m, 0.0, float("-inf"))[None, :]
    top = tl.max(scores, axis=1, keep_dims=True)
    p = tl.exp2(scores - top)
    total = tl.sum(p, axis=1, keep_dims=True)
    v = tl.load(KV + D + j[:, None] * 2 * D + c, mask=j[:, None] < m, other=0.0)
    tl.store(Out + i * D + c, tl.dot(p / total, v), mask=i < n)
    tl.store(Lse + i, (top + tl.log2(total)) / LOG2E, mask=i < n)


@triton.jit
def block_pointers(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    own = tl.make_block_ptr(Q, (n, D), (D, 1), (first, 0), (BLOCK_M, D), (1, 0))
    out = tl.make_block_ptr(Out, (n, D), (D, 1), (first, 0), (BLOCK_M, D), (1, 0))
    key = tl.make_block_ptr(KV, (D, m), (1, 2 * D), (0, 0), (D, BLOCK_N), (0, 1))
    value = tl.make_block_ptr(KV + D, (m, D), (2 * D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    q = tl.load(own, boundary_check=(0,), padding_option="zero")
    k = tl.load(key, boundary_check=(1,), padding_option="zero")
    v = tl.load(value, boundary_check=(0,), padding_option="zero")
    scores = tl.dot(q, k) * scale
    scores = tl.where((tl.arange(0, BLOCK_N) < m)[None, :], scores, float("-inf"))
    top = tl.max(scores, 1)
    p = tl.exp(scores - top[:, None])
    total = tl.sum(p, 1)
    tl.store(out, tl.dot(p, v) / total[:, None], boundary_check=(0,))
    rows = first + tl.arange(0, BLOCK_M)
    tl.store(Lse + rows, top + tl.log(total), mask=rows < n)


@triton.jit
def part(q, KV, first, m, D: tl.constexpr, HALF: tl.constexpr):
    """Scores and values of some of the keys."""
    keys = first + tl.arange(0, HALF)
    at = KV + keys[:, None] * 2 * D + tl.arange(0, D)
    k = tl.load(at, mask=keys[:, None] < m, other=0.0)
    v = tl.load(at + D, mask=keys[:, None] < m, other=0.0)
    return tl.where(keys[None, :] < m, tl.dot(q, tl.trans(k)), float("-inf")), v


@triton.jit
def two_halves(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """The online softmax, in two turns."""
    HALF: tl.constexpr = BLOCK_N // 2
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = rows[:, None] * D + tl.arange(0, D)
    q = tl.load(Q + at, mask=rows[:, None] < n, other=0.0) * scale
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, D], tl.float32)
    for first in tl.static_range(0, BLOCK_N, HALF):
        scores, v = part(q, KV, first, m, D, HALF)
        new = tl.maximum(maximum, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        total = total * tl.exp(maximum - new) + tl.sum(p, 1)
        mixed = mixed * tl.exp(maximum - new)[:, None] + tl.dot(p, v)
        maximum = new
    tl.store(Out + at, mixed / total[:, None], mask=rows[:, None] < n)
    tl.store(Lse + rows, maximum + tl.log(total), mask=rows < n)
