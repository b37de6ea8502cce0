"""Exercise numbers_moved: what two shapes of a tile move between slow and fast memory."""

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Asked, Exercise, Mistake, Number

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


def counted(passes, output=1, lse=1):
    """The formula: passes over keys and values for each shape, and how often the rest is moved."""
    kept = N * (KEY + VALUE * output + lse)
    return [kept + p * M * (KEY + VALUE) for p in passes]


def passes(asked: Asked) -> str:
    """How often keys and values would have passed."""
    found = asked.seen["the number"]
    if not isinstance(found, Close) or found.value.shape != (2,):
        return "Two whole numbers are asked, as a tuple: with tiles of 128 x 64, and of 64 x 256."
    once = N * (KEY + VALUE + 1)
    one, other = (f"{(x - once) / (M * (KEY + VALUE)):.6g}" for x in found.value.tolist())
    return (
        "If queries, outputs and lse are moved once, these numbers leave room to read all keys and "
        f"values {one} times and {other} times."
    )


ROWS = N // 128, N // 64  # blocks of rows
COLUMNS = M // 64, M // 256  # blocks of columns
EXERCISE = Exercise(
    name="numbers_moved",
    judge=Number(both, rtol=1e-9),
    right=both(),
    asks_for="number",
    explain=(passes,),
    ideas=[
        Mistake("The two are exchanged; the tile of 128 rows comes first.", both()[::-1]),
        Mistake("These are counted by blocks of columns; keys and values are read again for every "
                "block of rows.", counted(COLUMNS)),
        Mistake("Everything is moved once here; but keys and values are read again for every block "
                "of rows.", counted((1, 1))),
        Mistake("The log-sum-exps are not counted; one number a row is written.",
                counted(ROWS, lse=0)),
        Mistake("The output is not counted; it is written once, block by block.",
                counted(ROWS, output=0)),
        Mistake("The weights are written and read here; tiles of them never leave fast memory.",
                [x + 2 * N * M for x in both()]),
    ],
)  # fmt: skip
