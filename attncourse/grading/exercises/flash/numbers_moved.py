"""Exercise numbers_moved: what two shapes of a tile move between slow and fast memory."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

N, M, KEY, VALUE = 2048, 6144, 192, 128  # queries, keys, and the widths of both


def walked(rows: int, columns: int, key: int = KEY, value: int = VALUE) -> int:
    """Tile by tile, as the statement says it."""
    moved = 0
    for _ in range(0, N, rows):
        moved += rows * key  # queries
        moved += sum(columns * (key + value) for _ in range(0, M, columns))
        moved += rows * value + rows  # output and lse
    return moved


def both() -> tuple[int, int]:
    return walked(128, 64), walked(64, 256)


def passes(place: int, number: float) -> str:
    """How often keys and values would have passed, if that is a whole number."""
    often = (number - N * (KEY + VALUE + 1)) / (M * (KEY + VALUE))
    return (
        "If queries, outputs and lse are moved once, this leaves room to read all keys and values "
        f"{often:.0f} times."
    ) * (often > 0 and often == int(often))


def made(rows: int, columns: int) -> Made:
    """What moves with such tiles, part by part, and what people move instead."""
    often, steps, right = N // rows, M // columns, walked(rows, columns)
    terms = {
        "the log-sum-exps": N, "the outputs": N * VALUE, "the queries": N * KEY,
        "the keys": often * M * KEY, "the values": often * M * VALUE,
    }  # fmt: skip
    return Made(terms=terms, others={
        "taking the values for 192 wide": walked(rows, columns, value=KEY),
        "taking queries and keys for 128 wide": walked(rows, columns, key=VALUE),
        "reading keys and values once": walked(N, columns),
        "writing outputs and lse with each block of keys": right + (steps - 1) * N * (VALUE + 1),
        "reading the values once": right - (often - 1) * M * VALUE,
        "reading values that are 192 wide": right + often * M * (KEY - VALUE),
        "reading the queries with each block of keys": right + (steps - 1) * N * KEY,
        "putting the loop over the keys outside":
            M * (KEY + VALUE) + steps * N * KEY + N * (VALUE + 1),
        "taking 6,144 queries and 2,048 keys":
            M * (KEY + VALUE + 1) + M // rows * N * (KEY + VALUE),
        "writing the scores": right + N * M, "writing and reading the scores": right + 2 * N * M,
        "counting 2 bytes for a number": 2 * right, "counting 4 bytes for a number": 4 * right,
    })  # fmt: skip


EXERCISE = Exercise(
    name="numbers_moved",
    judge=Number(both, rtol=1e-9),
    right=both(),
    results=("with tiles of 128 x 64", "with tiles of 64 x 256"),
    asks_for="number",
    explain=(predicted(passes, made(128, 64), made(64, 256)),),
)
