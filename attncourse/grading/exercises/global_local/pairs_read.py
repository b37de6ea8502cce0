"""Exercise pairs_read: how many pairs do a window and global tokens read, each counted once?"""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, seeded
from attncourse.grading.explain.probes import simpler


def definition(n, left, right, num_global):
    """Row by row for global tokens, a global key each for the others; then distance by distance."""
    others = n - num_global
    total = sum(n for _ in range(num_global)) + others * num_global
    for distance in range(-left, right + 1):
        total += max(others - abs(distance), 0)
    return total


def cases(seed: int) -> list[Case]:
    """Small ones to count by hand, drawn ones, and one whose table of pairs fits no memory."""
    g = seeded(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=g))

    calls = (
        (6, 1, 1, 1), (8, 2, 1, 0), (9, 1, 3, 2), (7, 3, 0, 3), (5, 2, 2, 5), (6, 9, 7, 1),
        (10, 0, 0, 2), (1, 1, 0, 1),
        (between(40, 90), between(3, 9), between(10, 16), between(2, 8)),
        (between(20, 30), between(15, 40), between(6, 10), between(8, 14)),
        (4096 + between(1, 99), 256, 255, between(20, 70)),
        (10**6 + between(1, 10**5), 2048, 1024, between(2, 9)),
    )  # fmt: skip
    names = "n {}, left {}, right {}, {} global"
    return [Case(names.format(*call), call, gradients=False) for call in calls]


def right(n, left, right, num_global):
    others = n - num_global
    window = sum(max(others - abs(distance), 0) for distance in range(-left, right + 1))
    return n * n - others * others + window


def asked(says: str, n: int, left: int, right: int, num_global: int):
    """A question on a short text."""
    sizes = f"{n} token{'s' * (n > 1)}, left {left}, right {right}, {num_global} global"
    return f"{sizes}: {says}", (n, left, right, num_global)


EXERCISE = Exercise(
    name="pairs_read",
    judge=Counts(definition, cases),
    right=right,
    explain=(
        simpler(
            asked("one row, and it is the column", 1, 0, 0, 1),
            asked("all read all", 2, 0, 0, 2),
            asked("it reads itself", 1, 0, 0, 0),
            asked("each reads itself", 2, 0, 0, 0),
            asked("each reads itself, and the last one the first", 2, 1, 0, 0),
            asked("each reads itself, and the first one the last", 2, 0, 1, 0),
            asked("the first two miss 2 and 1 of the keys before them", 4, 2, 0, 0),
            asked("the last two miss 1 and 2 of the keys behind them", 4, 0, 2, 0),
            asked("no window reaches beyond the text", 3, 5, 4, 0),
            asked("2 rows and 2 columns cross in 4 pairs; others read themselves", 4, 0, 0, 2),
            asked("a global token and its neighbour are near, too, but one pair", 4, 1, 0, 1),
            asked("a token and its global neighbour are near, too, but one pair", 4, 0, 1, 1),
            asked("all are global, so the window adds nothing", 3, 1, 0, 3),
            asked("no window reaches beyond the text, and global tokens read it all", 5, 9, 7, 2),
        ),
    ),
)
