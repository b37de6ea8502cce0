"""Exercise numbers_moved: what two shapes of a tile move between slow and fast memory."""

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Asked, Exercise, Number

N, M, KEY, VALUE = 2048, 6144, 192, 128  # queries, keys, and the widths of both


def walked(rows: int, columns: int) -> int:
    """Tile by tile, as the statement says it."""
    moved = 0
    for _ in range(0, N, rows):
        moved += rows * KEY  # queries
        moved += sum(columns * (KEY + VALUE) for _ in range(0, M, columns))
        moved += rows * VALUE + rows  # output and lse
    return moved


def both() -> tuple[int, int]:
    return walked(128, 64), walked(64, 256)


def passes(asked: Asked) -> str:
    """How often keys and values would have passed."""
    found = asked.seen["the number"]
    if not isinstance(found, Close) or found.value.shape != (2,):
        return "Two whole numbers are asked, as a tuple: with tiles of 128 x 64, and of 64 x 256."
    once = N * (KEY + VALUE + 1)
    one, other = (f"{(x - once) / (M * (KEY + VALUE)):.6g}" for x in found.value.tolist())
    return (
        "If queries, outputs and lse are moved once, these numbers leave room to read all keys and "
        f"values {one} times with tiles of 128 x 64 and {other} times with tiles of 64 x 256."
    )


EXERCISE = Exercise(
    name="numbers_moved",
    judge=Number(both, rtol=1e-9),
    right=both(),
    asks_for="number",
    explain=(passes,),
)
