"""Exercise skipped_tiles: which tiles of a causal pass are skipped, masked, or read as a whole."""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, seeded
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


QUESTIONS = (  # a sentence; n, m, block_m, block_n, offset
    ("A tile of 4 x 4 with the offset -9 is hidden everywhere: skipped", 4, 4, 4, 4, -9),
    ("A tile of 4 x 4 on the diagonal is hidden in part: masked", 4, 4, 4, 4, 0),
    ("With the offset 9 a tile of 4 x 4 with only 3 rows has places that do not exist: masked",
     3, 4, 4, 4, 9),
    ("With the offset 9 a tile of 4 x 4 with 3 columns has places that do not exist: masked",
     4, 3, 4, 4, 9),
    ("With the offset -3 the last row of a tile of 4 x 4 reads one place: masked", 4, 4, 4, 4, -3),
    ("With the offset -4 the last row of a tile of 4 x 4 reads no place: skipped", 4, 4, 4, 4, -4),
    ("With the offset 2 the first row of a tile of 4 x 4 misses one place: masked", 4, 4, 4, 4, 2),
    ("Only 2 rows of a tile of 4 x 4 exist, and with the offset -2 they read nothing: skipped",
     2, 4, 4, 4, -2),
    ("With the offset 9, 5 rows and 5 columns make four tiles of 4 x 4: one is whole",
     5, 5, 4, 4, 9),
    ("With the offset 9 nothing hides a tile of 4 x 4: whole", 4, 4, 4, 4, 9),
    ("With the offset 3 the first row of a tile of 4 x 4 misses no place: whole", 4, 4, 4, 4, 3),
    ("Tiles are block_m rows high and block_n columns wide: one of 2 x 6, with the offset 9",
     2, 6, 2, 6, 9),
    ("With the offset 0 query 1 reads the keys 0 and 1, however many there are: whole, skipped",
     2, 4, 1, 2, 0),
    ("With the offset 3, 9 columns make three tiles of 4 x 4: whole, masked, and skipped",
     4, 9, 4, 4, 3),
)  # fmt: skip
EXERCISE = Exercise(
    name="skipped_tiles",
    judge=Counts(definition, cases),
    right=right,
    results=("skipped", "masked", "whole"),
    explain=(simpler(*((says, tuple(sizes)) for says, *sizes in QUESTIONS)),),
)
