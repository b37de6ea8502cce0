"""A window block by block, and what people get wrong about blocks and about the ends of a text."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.exercises.sliding_window._window import near
from attncourse.grading.recipe import Given, Recipe

# Of blocks, as people choose them; 0 stands for half a window, 1 for a whole one, below 0 for the larger of both.
SIZES = (0, 1, 8, 16, 32, 64, 128, -32, -64)


def attended(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """The five steps; where all keys are hidden the output is NaN."""
    x = Given(query, key, value, visible)
    return Recipe(lambda: x)()[0]


def in_blocks(
    size: int, before=lambda r: r, after=lambda r: r, own=False, starts=range, rule=near,
    join=lambda blocks: torch.cat(blocks, dim=2),
) -> Callable:  # fmt: skip
    """Blocks of queries with their keys.

    Args:
        size: queries in a block.
        before, after: how many keys are cut out besides those of the block, of r on each side.
        own: queries and keys are both counted from the start of what was cut out.
        starts: (0, n, size) -> where the blocks begin.
        join: makes the output of the blocks.
        rule: which of the keys that were cut out are read.
    """

    def answer(query, key, value, window_size):
        n, r, out = query.size(2), window_size // 2, [value[:, :, :0]]
        rows = {0: max(1, r), 1: window_size}.get(size, max(size, r if size < 0 else 0, -size))
        for a in starts(0, n, rows):
            b, first, last = min(a + rows, n), max(0, a - before(r)), min(n, a + rows + after(r))
            i, j = torch.arange(a, b)[:, None], torch.arange(first, last)
            i, j = (i - a, j - first) if own else (i, j)
            cut = (query[:, :, a:b], key[:, :, first:last], value[:, :, first:last])
            out.append(attended(*cut, rule(i, j, window_size)))
        return join(out)

    return answer


def whole(start: int, n: int, size: int) -> range:
    """Without a smaller block at the end."""
    return range(start, n - n % size, size)


def with_ends(ends: Callable) -> Callable:
    """The keys of each query out of a text that is longer by r at both ends, none of them hidden."""

    def answer(query, key, value, window_size):
        r = window_size // 2
        rows = torch.arange(query.size(2))[:, None] + torch.arange(2 * r + 1)
        key, value = (ends(x, r)[:, :, rows] for x in (key, value))
        everything = torch.ones(1, 2 * r + 1, dtype=torch.bool)
        return attended(query[:, :, :, None], key, value, everything)[:, :, :, 0]

    return answer


def zeros(x, r):
    """Tokens of zeros beyond the ends."""
    return F.pad(x, (0, 0, r, r))


def repeated(x, r):
    """The first and the last token again beyond the ends."""
    return x[:, :, torch.arange(-r, x.size(2) + r).clamp(0, x.size(2) - 1)]


def around(x, r):
    """Beyond each end, the other end."""
    return x[:, :, torch.arange(-r, x.size(2) + r) % x.size(2)]


SIDES = "the window reaches into the blocks on both sides"
IN_BLOCKS = (
    (f"Each block of queries reads the keys of its own block only; {SIDES}.", {"before": lambda r: 0, "after": lambda r: 0}),
    (f"The keys behind a block of queries are missing; {SIDES}.", {"after": lambda r: 0}),
    (f"The keys in front of a block of queries are missing; {SIDES}.", {"before": lambda r: 0}),
    ("Behind each block one key is missing; the last query of a block reads w // 2 keys behind it.", {"after": lambda r: r - 1}),
    ("In front of each block one key is missing; its first query reads w // 2 keys before it.", {"before": lambda r: r - 1}),
    ("In a block, queries and keys are both counted from 0, but the keys begin earlier than the queries, except in the first block.",
     {"own": True}),
    ("All queries of a block read all keys that were cut out for it; each has a window of its own, so a mask is still needed.",
     {"rule": lambda i, j, w: i + j > -1}),
    ("Within a block, keys that are too late are not hidden; the window ends w // 2 keys behind its query.",
     {"rule": lambda i, j, w: i - j <= w // 2}),
    ("Within a block, keys that are too early are not hidden; the window begins w // 2 keys before its query.",
     {"rule": lambda i, j, w: j - i <= w // 2}),
    ("The blocks are returned in a list; join them with torch.cat(..., dim=2).", {"join": lambda blocks: blocks[1:]}),
    ("The last queries are missing, where the last block is smaller than the others.", {"starts": whole}),
)  # fmt: skip
WIDER = ("The mask within a block reaches w keys to each side, and the keys were cut out for w / 2.",
     {"rule": lambda i, j, w: (i - j).abs() <= w})  # fmt: skip
ENDS = (
    ("At both ends the text is filled up with zeros, and these are read like tokens: their score is 0, and exp(0) is 1. Hide them.",
     zeros),
    ("At both ends the first or the last token is read several times; there is nothing beyond them.", repeated),
    ("The text is closed to a ring: its first tokens read the last ones. There is nothing beyond the ends.", around),
)  # fmt: skip


def query_by_query(first: Callable, last: Callable, queries=lambda n, r: range(n)) -> Callable:
    """One query after the other, with the keys from first(i, r) to before last(i, r)."""

    def answer(query, key, value, window_size):
        n, r, out = query.size(2), window_size // 2, [value[:, :, :0]]
        for i in queries(n, r):
            at = slice(first(i, r), last(i, r))
            everything = torch.ones(1, key[:, :, at].size(2), dtype=torch.bool)
            out.append(attended(query[:, :, i : i + 1], key[:, :, at], value[:, :, at], everything))
        return torch.cat(out, dim=2)

    return answer


def begin(i, r):
    """The first key that exists."""
    return max(0, i - r)


def end(i, r):
    """Behind the last key."""
    return i + r + 1


QUERIES = (
    ("The first and the last queries are missing, those whose window goes beyond the end; they read what there is.",
     query_by_query(begin, end, lambda n, r: range(r, n - r))),
    ("At the start of the text the slice of keys begins with a negative number, which Python counts from the end; begin at 0.",
     query_by_query(lambda i, r: i - r, end)),
    ("The last key of the window is missing: a slice ends before its second number.", query_by_query(begin, lambda i, r: i + r)),
    ("The first key of the window is missing.", query_by_query(lambda i, r: max(0, i - r + 1), end)),
)  # fmt: skip


def slips() -> Iterator[tuple[str, Callable]]:
    """Sentences, and the answers that they are true of."""
    for says, steps in IN_BLOCKS:
        yield from ((says, in_blocks(size, **steps)) for size in SIZES)
    yield from ((says, with_ends(ends)) for says, ends in ENDS)
    says, steps = WIDER  # the same as the one before it in blocks of half a window
    yield from ((says, in_blocks(size, **steps)) for size in SIZES[1:])
    yield from QUERIES


def row_of_all(query, key, value, window_size):
    """Right, and no table is ever there: but each query meets all keys."""
    j = torch.arange(query.size(2))
    rows = [
        attended(query[:, :, i : i + 1], key, value, near(j[i], j, window_size))
        for i in range(len(j))
    ]
    return torch.cat(rows, dim=2)
