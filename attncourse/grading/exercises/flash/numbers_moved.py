"""Exercise numbers_moved: what two shapes of a tile move between slow and fast memory."""

from itertools import product

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

N, M, KEY, VALUE = 2048, 6144, 192, 128  # queries, keys, and the widths of both
SHAPES = (128, 64), (64, 256)  # rows, columns


def walked(rows: int, columns: int) -> int:
    """Tile by tile, as the statement says it."""
    moved = 0
    for _ in range(0, N, rows):
        moved += rows * KEY  # queries
        moved += sum(columns * (KEY + VALUE) for _ in range(0, M, columns))
        moved += rows * VALUE + rows  # output and lse
    return moved


def both() -> tuple[int, int]:
    return tuple(walked(*shape) for shape in SHAPES)


def counted(rows, columns, query=1, key=1, value=1, output=1, lse=1, times=None):
    """The formula, with how often each is moved, which people change."""
    times = N / rows if times is None else times
    kept = N * (KEY * query + VALUE * output + lse)
    return kept + times * M * (KEY * key + VALUE * value)


def pair(change=counted, factor=1, **options):
    return [factor * change(*shape, **options) for shape in SHAPES]


def per_block(**moved):
    """Some of it once for every block of columns."""
    return lambda rows, columns: counted(
        rows, columns, **{x: k * M / columns for x, k in moved.items()}
    )


ACCEPTED = Accepted(
    tuple_of_whole_numbers=(32_114_688, 63_571_968),
    list_of_floats=[32114688.0, 63571968.0],
    tensor=torch.tensor([32_114_688, 63_571_968]),
    numpy=np.array([2048 * 321 + 16 * 6144 * 320, 2048 * 321 + 32 * 6144 * 320]),
    by_the_formula=tuple(n * 321 + n // rows * 6144 * 320 for n, (rows, _) in product([N], SHAPES)),
)  # fmt: skip

READ_AGAIN = "keys and values are read again for every block of rows"
FIRST = "The loops are exchanged, as in the first FlashAttention: here a block of rows stays until all keys have passed."
FAST = "never leave fast memory"
SAYS = (  # what is said of changed(rows, columns)
    (f"These are counted by blocks of columns; {READ_AGAIN}.", lambda r, c: counted(c, r)),
    (f"Everything is moved once here; but {READ_AGAIN}.", lambda r, c: counted(r, c, times=1)),
    ("The log-sum-exps are not counted; one number a row is written.", lambda r, c: counted(r, c, lse=0)),
    ("The output is not counted; it is written once, block by block.", lambda r, c: counted(r, c, output=0)),
    ("Neither the output nor the log-sum-exps are counted; both are written once.",
     lambda r, c: counted(r, c, output=0, lse=0)),
    ("The queries are not counted; each block of rows is read once.", lambda r, c: counted(r, c, query=0)),
    ("Only keys and values are counted; queries, output and log-sum-exps are moved, too.",
     lambda r, c: counted(r, c, query=0, output=0, lse=0)),
    ("The values are not counted; they are read with the keys.", lambda r, c: counted(r, c, value=0)),
    ("The keys are not counted; they are read with the values.", lambda r, c: counted(r, c, key=0)),
    (f"The values are read once here; {READ_AGAIN}.", lambda r, c: counted(r, c, value=r / N)),
    (f"The keys are read once here; {READ_AGAIN}.", lambda r, c: counted(r, c, key=r / N)),
    ("All widths are taken as 128; queries and keys are 192 wide.",
     lambda r, c: counted(r, c, query=2 / 3, key=2 / 3)),
    ("All widths are taken as 192; values and outputs are 128 wide.",
     lambda r, c: counted(r, c, value=1.5, output=1.5)),
    ("The keys are taken to be as many as the queries; there are 6,144.", lambda r, c: counted(r, c, times=N / r / 3)),
    ("The queries are taken to be as many as the keys; there are 2,048.", lambda r, c: 3 * counted(r, c)),
    ("The blocks of rows are counted among the keys; there are 2,048 rows.", lambda r, c: counted(r, c, times=M / r)),
    ("The queries are read again for every tile here; a block of rows stays until all keys have passed.",
     lambda r, c: counted(r, c, query=M / c)),
    (f"The output is read and written for every tile here; it and what belongs to it {FAST} before all keys have passed.",
     lambda r, c: counted(r, c, output=2 * M / c)),
    *((FIRST, lambda r, c, o=o, k=k: counted(r, c, M / c, 1, 1, o * M / c, k * M / c, times=1))
      for o in (1, 2) for k in (0, 1, 2, 4)),
    (f"The weights are written here; tiles of them {FAST}.", lambda r, c: counted(r, c) + N * M),
    (f"The weights are written and read here; tiles of them {FAST}.", lambda r, c: counted(r, c) + 2 * N * M),
    (f"Scores and weights are written and read here; tiles of them {FAST}.", lambda r, c: counted(r, c) + 4 * N * M),
    ("This is attention without tiles, which writes and reads scores and weights; count what the tiles move.",
     lambda r, c: counted(r, c, lse=0, times=1) + 4 * N * M),
    ("Only half of the tiles are counted, as with a causal mask; there is no mask here.",
     lambda r, c: counted(r, c, times=N / r / 2)),
    ("These are bytes of float16 or bfloat16; numbers are asked for.", lambda r, c: 2 * counted(r, c)),
    ("These are bytes of float32; numbers are asked for.", lambda r, c: 4 * counted(r, c)),
    ("These are millions; numbers are asked for, with all their digits.", lambda r, c: counted(r, c) / 1e6),
    ("This is what one block of rows moves; there are 16 of them, or 32.", lambda r, c: counted(r, c) * r / N),
    ("This is what fits into one tile; count what all of them move.", lambda r, c: r * c),
    ("These are multiplications or FLOPs; the numbers that are moved are asked for.", lambda r, c: N * M * (KEY + VALUE)),
    ("These are multiplications or FLOPs; the numbers that are moved are asked for.", lambda r, c: 2 * N * M * (KEY + VALUE)),
    ("These are the weights; tiles never move them. Count what each block of rows reads and writes.", lambda r, c: N * M),
)  # fmt: skip
RIGHT = both()
MISTAKES = Mistakes(Mistake(says, Close(torch.tensor(numbers, dtype=torch.float64), 1e-5)) for says, numbers in (
    ("The two are exchanged; the tile of 128 rows comes first.", RIGHT[::-1]),
    *((says, [change(*shape) for shape in SHAPES]) for says, change in SAYS),
    ("Only the first of the two numbers is given.", RIGHT[0]),
    ("Only the second of the two numbers is given.", RIGHT[1]),
    ("Both numbers are asked for, not their difference.", RIGHT[1] - RIGHT[0]),
    ("Both numbers are asked for, not their ratio.", RIGHT[1] / RIGHT[0]),
    ("Both numbers are asked for, not their ratio.", RIGHT[0] / RIGHT[1]),
    ("This is close, but all digits count.", [32.11e6, 63.57e6]),
))  # fmt: skip


class Moved(Number):
    """Says how often keys and values would have passed."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.shape != (2,):
            return (
                "Two whole numbers are asked, as a tuple: with tiles of 128 x 64, and of 64 x 256."
            )
        once = N * (KEY + VALUE + 1)  # queries, outputs and lse
        passes = [f"{(x - once) / (M * (KEY + VALUE)):.6g}" for x in found.value.tolist()]
        return (
            f"If queries, outputs and lse are moved once, these numbers leave room to read all keys and values {passes[0]} times "
            f"and {passes[1]} times."
        )


EXERCISE = Exercise(
    name="numbers_moved", judge=Moved(both, rtol=1e-9), accepted=ACCEPTED, mistakes=MISTAKES
)
