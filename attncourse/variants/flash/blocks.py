"""What the kernels share: which block a program works on, how its rows come and go, and what it may see."""

import triton
import triton.language as tl
from triton import next_power_of_2

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
def load_numbers(base, rows, count, EDGE: tl.constexpr):
    """One number for each of these rows; 0 where ``EDGE`` says that a row may not exist, and it does not."""
    if EDGE:
        return tl.load(base + rows, mask=rows < count, other=0.0)
    return tl.load(base + rows)


@triton.jit
def store_rows(base, tile, rows, count, WIDTH: tl.constexpr):
    """The counterpart of `load_rows`; nothing outside the matrix is written."""
    columns = tl.arange(0, next_power_of_2(WIDTH))
    inside = (rows[:, None] < count) & (columns < WIDTH)
    address = base + rows[:, None] * WIDTH + columns
    tl.store(address, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def head_and_block(length, section, BLOCK: tl.constexpr):
    """Which head, and which of its blocks, this program works on.

    Programs are counted through ``section`` heads at a time: first block 0 of each of them, then block 1 of
    each. The card starts them in this order. If the longest come first, no long one is left for the end,
    when other processors have nothing more to do; and while a section lasts, its keys and values stay in
    the cache.
    """
    blocks = tl.cdiv(length, BLOCK)
    before = (
        tl.program_id(0) // (section * blocks) * section
    )  # heads of the sections before this one
    number = tl.program_id(0) % (section * blocks)
    heads = tl.minimum(section, tl.num_programs(0) // blocks - before)  # the last may be smaller
    return (before + number % heads).to(tl.int64), number // heads


@triton.jit
def columns_to_read(first, last, m, offset, CAUSAL: tl.constexpr):
    """For rows first..last: before which column none is hidden, and before which column all reading ends."""
    plain, end = m, m
    if CAUSAL:
        plain = tl.maximum(tl.minimum(m, first + offset + 1), 0)
        end = tl.maximum(tl.minimum(m, last + offset + 1), 0)
    return plain, end


@triton.jit
def hide(scores, rows, columns, m, offset, CAUSAL: tl.constexpr):
    """Minus infinity where a column does not exist or, if causal, is one that its row may not read.

    Both conditions are one bound for each row, so that each score is compared once.
    """
    bound = tl.zeros_like(rows) + m
    if CAUSAL:
        bound = tl.minimum(bound, rows + offset + 1)
    return tl.where(columns[None, :] < bound[:, None], scores, MINUS_INFINITY)
