"""Exercise skipped_tiles: which tiles of a causal pass are skipped, masked, or read as a whole."""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.probes import simpler


def definition(n, m, block_m, block_n, offset):
    """Look at every place of every tile: does it exist, and is it visible?"""
    kinds = []
    for first in range(0, n, block_m):
        for start in range(0, m, block_n):
            rows, columns = range(first, first + block_m), range(start, start + block_n)
            kinds.append([i < n and j < m and j <= i + offset for i in rows for j in columns])
    skipped, whole = sum(not any(x) for x in kinds), sum(all(x) for x in kinds)
    return skipped, len(kinds) - skipped - whole, whole


CALLS = (  # special about the call; n, m, block_m, block_n, offset
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
    drawn = (int(torch.randint(*x, (), generator=g)) for x in between)
    calls = (*CALLS, ("sizes drawn at random", *drawn))
    label = "{}: n {}, m {}, tiles {} x {}, offset {}"
    return [Case(label.format(*call), call[1:], gradients=False) for call in calls]


def right(n, m, block_m, block_n, offset):
    """By the corners: the last row that exists reads farthest, the first one least."""
    skipped = masked = whole = 0
    for i in range(0, n, block_m):
        last = min(i + block_m, n) - 1
        for j in range(0, m, block_n):
            if j > last + offset:
                skipped += 1
            elif i + block_m <= n and j + block_n <= m and j + block_n - 1 <= i + offset:
                whole += 1
            else:
                masked += 1
    return skipped, masked, whole


ONE = "Of one tile of 4 x 4"
EXERCISE = Exercise(
    name="skipped_tiles",
    judge=Counts(definition, cases),
    right=right,
    results=("skipped", "masked", "whole"),
    explain=(
        simpler(
            (f"{ONE} all places are visible with the offset 3: no mask is needed", (4, 4, 4, 4, 3)),
            (f"{ONE} no place is visible with the offset -4: the tile is skipped",
             (4, 4, 4, 4, -4)),
            (f"{ONE} the diagonal hides some places: a mask is needed", (4, 4, 4, 4, 0)),
            (f"{ONE} only the last row reads a place with the offset -3: masked", (4, 4, 4, 4, -3)),
            (f"{ONE} the first row misses one place with the offset 2: masked", (4, 4, 4, 4, 2)),
            ("A tile of 4 x 4 with only 3 rows has places that do not exist: masked",
             (3, 4, 4, 4, 9)),
            ("A tile of 4 x 4 with only 3 columns has places that do not exist: masked",
             (4, 3, 4, 4, 9)),
            ("A tile of 4 x 4 with only 2 rows and the offset -2: the rows that exist read nothing",
             (2, 4, 4, 4, -2)),
            ("Tiles are block_m rows high and block_n columns wide: one of 2 x 6, all visible",
             (2, 6, 2, 6, 5)),
            ("5 rows make two tiles of 4 x 4, of which the second one hangs over the edge",
             (5, 4, 4, 4, 9)),
            ("9 columns make three tiles of 4 x 4: one is whole, one cut by the mask, one hidden",
             (4, 9, 4, 4, 3)),
        ),
    ),
    ideas=[
        Mistake(says, lambda *sizes, k=k: right(*sizes[:4], k(sizes[4])))
        for says, k in (
            ("The offset is not used; query i reads keys up to i + offset.", lambda k: 0),
            ("The offset has the wrong sign; query i reads keys up to i + offset.", lambda k: -k),
            ("A query does not read its own position here; it reads up to i + offset, this one "
             "included.", lambda k: k - 1),
        )
    ],
)  # fmt: skip
