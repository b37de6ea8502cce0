"""Exercise skipped_tiles: which tiles of a causal pass are never read, which need a mask, and which need none."""

from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.told import SeveralCounts


def definition(n, m, block_m, block_n, offset):
    """Look at every place of every tile: does it exist, and is it visible?"""
    kinds = []
    for first in range(0, n, block_m):
        for start in range(0, m, block_n):
            rows, columns = range(first, first + block_m), range(start, start + block_n)
            kinds.append([i < n and j < m and j <= i + offset for i in rows for j in columns])
    skipped, whole = sum(not any(x) for x in kinds), sum(all(x) for x in kinds)
    return skipped, len(kinds) - skipped - whole, whole


CALLS = (  # what is special; n, m, block_m, block_n, offset
    ("square, whole tiles", 64, 64, 16, 16, 0),
    ("tiles taller than wide", 64, 64, 32, 8, 0),
    ("tiles wider than tall", 64, 64, 8, 32, 0),
    ("ragged", 50, 61, 16, 8, 0),
    ("one key ahead", 48, 48, 16, 16, 1),
    ("one key behind", 48, 48, 16, 16, -1),
    ("more keys than queries, ends aligned", 24, 60, 8, 16, 36),
    ("more queries than keys, ends aligned", 60, 25, 8, 16, -35),
    ("everything hidden", 20, 30, 8, 16, -40),
    ("everything visible", 20, 30, 8, 16, 64),
    ("one query behind a cache", 1, 37, 16, 8, 36),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    between = (30, 90), (30, 90), (3, 18), (3, 18), (-9, 30)
    n, m, a, b, k = (int(torch.randint(*x, (), generator=g)) for x in between)
    calls = (*CALLS, ("sizes drawn at random", n, m, a, b, k))
    return [Case(f"{what}: n {x[0]}, m {x[1]}, tiles {x[2]} x {x[3]}, offset {x[4]}", tuple(x), gradients=False)
            for what, *x in calls]  # fmt: skip


def up(n, block):
    return -(-n // block)


def tiles(
    n, m, block_m, block_n, offset, over=lambda n, block: [x * block for x in range(up(n, block))],
    skip=lambda i, last, j, end, k: j > last + k, whole=lambda i, last, j, end, k: end <= i + k,
    inside=lambda i, j, n, m, a, b: i + a <= n and j + b <= m, rows=lambda i, n, a: min(i + a, n) - 1,
    columns=lambda j, m, b: min(j + b, m) - 1, finish=lambda s, masked, w: (s, masked, w),
):  # fmt: skip
    """A right answer, tile by tile, from its corners; a mistake replaces a step."""
    found = [0, 0, 0]
    for i in over(n, block_m):
        for j in over(m, block_n):
            place = i, rows(i, n, block_m), j, columns(j, m, block_n), offset
            full = whole(*place) and inside(i, j, n, m, block_m, block_n)
            found[0 if skip(*place) else 2 if full else 1] += 1
    return finish(*found)


ACCEPTED = Accepted(by_corners=tiles, by_places=definition)


@ACCEPTED.add
def one_picture(n, m, block_m, block_n, offset):
    rows, columns = up(n, block_m), up(m, block_n)
    visible = torch.zeros(rows * block_m, columns * block_n, dtype=torch.bool)
    visible[:n, :m] = torch.ones(n, m, dtype=torch.bool).tril(offset)
    counts = visible.view(rows, block_m, columns, block_n).sum((1, 3))
    skipped, whole = (counts == 0).sum(), (counts == block_m * block_n).sum()
    return skipped, counts.numel() - skipped - whole, whole


@ACCEPTED.add
def row_of_tiles_by_row(n, m, block_m, block_n, offset):
    """As the kernel does it: how far is read, and how far without a mask."""
    read = whole = 0
    for first in range(0, n, block_m):
        end = max(min(m, min(first + block_m, n) + offset), 0)
        plain = max(min(m, first + offset + 1), 0) if first + block_m <= n else 0
        read += up(end, block_n)
        whole += plain // block_n
    return up(n, block_m) * up(m, block_n) - read, read - whole, whole


@ACCEPTED.add
def broadcast_corners(n, m, block_m, block_n, offset):
    i, j = torch.arange(0, n, block_m)[:, None], torch.arange(0, m, block_n)[None]
    skipped = j > torch.clamp(i + block_m, max=n) - 1 + offset
    whole = (i + block_m <= n) & (j + block_n <= m) & (j + block_n - 1 <= i + offset)
    return [int(x.sum()) for x in (skipped, ~(skipped | whole), whole)]


MISTAKES = Mistakes(Mistake(says, partial(tiles, **steps)) for says, steps in (
    ("The offset is not used; query i reads keys up to i + offset.",
     {"skip": lambda i, last, j, end, k: j > last, "whole": lambda i, last, j, end, k: end <= i}),
    ("The offset has the wrong sign; query i reads keys up to i + offset.",
     {"skip": lambda i, last, j, end, k: j > last - k, "whole": lambda i, last, j, end, k: end <= i - k}),
    ("A query does not read its own position here; it reads up to i + offset, this one included.",
     {"skip": lambda i, last, j, end, k: j >= last + k, "whole": lambda i, last, j, end, k: end < i + k}),
    ("The first row of a tile decides that it is skipped; the last row reads farthest.",
     {"skip": lambda i, last, j, end, k: j > i + k}),
    ("The last row of a tile decides that it needs no mask; the first row reads least.",
     {"whole": lambda i, last, j, end, k: end <= last + k}),
    ("The first column of a tile decides that it needs no mask; the last column is hidden first.",
     {"whole": lambda i, last, j, end, k: j <= i + k}),
    ("The last column of a tile decides that it is skipped; a tile whose first column is visible is read.",
     {"skip": lambda i, last, j, end, k: end > last + k, "whole": lambda i, last, j, end, k: end <= i + k}),
    ("A tile that hangs over the edge counts as whole; places that do not exist need a mask.",
     {"inside": lambda *_: True}),
    ("Only the rows of an edge tile are looked at; columns beyond m need a mask, too.",
     {"inside": lambda i, j, n, m, a, b: i + a <= n}),
    ("Only the columns of an edge tile are looked at; rows beyond n need a mask, too.",
     {"inside": lambda i, j, n, m, a, b: j + b <= m}),
    ("The last row of an edge tile is taken beyond n; a row that does not exist reads nothing.",
     {"rows": lambda i, n, a: i + a - 1}),
    ("The tiles that hang over the edge are left out; their number is rounded up.",
     {"over": lambda n, block: range(0, n - block + 1, block)}),
    ("Nothing is skipped; a tile in which no place is visible is not read.", {"skip": lambda *_: False}),
    ("The order is another one; return (skipped, masked, whole).", {"finish": lambda s, masked, w: (w, masked, s)}),
    ("Tiles that need a mask are counted with the whole ones, or the order is (skipped, whole, masked).",
     {"finish": lambda s, masked, w: (s, w, masked)}),
    ("The second number counts all tiles that are read; it counts those that need a mask.",
     {"finish": lambda s, masked, w: (s, masked + w, w)}),
    ("Nothing but the skipped tiles is returned; return (skipped, masked, whole).",
     {"finish": lambda s, masked, w: s}),
    ("These are shares of all tiles; return how many there are.",
     {"finish": lambda s, masked, w: tuple(x / max(s + masked + w, 1) for x in (s, masked, w))}),
))  # fmt: skip

EXERCISE = Exercise(
    name="skipped_tiles",
    judge=SeveralCounts(definition, cases, names=("skipped", "masked", "whole")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
