"""Exercise cache_dial: the largest number of key/value heads whose cache fits."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

LAYERS, NUM_HEADS, HEAD_DIM = 80, 64, 128
BATCH, LENGTH, BYTES = 8, 16_384, 2
MEMORY = 50 * 2**30


def largest() -> int:
    """Try every divisor of the number of query heads."""
    one = sum(BATCH * LAYERS * LENGTH * HEAD_DIM * BYTES for _ in ("keys", "values"))
    return fitting(MEMORY / one)


def fitting(most: float) -> int:
    """The largest divisor of the number of query heads that is no larger than this."""
    return max(g for g in range(1, NUM_HEADS + 1) if NUM_HEADS % g == 0 and g <= most)


def memory_of(heads: float) -> str:
    """What the cache of so many KV heads takes."""
    if heads != int(heads) or heads < 1:
        return "A number of KV heads is whole, and at least 1: with one, the cache takes 5 GiB."
    size = f"With num_kv_heads = {heads:,g} the cache takes {5 * heads:,g} GiB"
    if heads > NUM_HEADS:
        return f"{size}; and there are only 64 query heads to share them."
    whole = "" if NUM_HEADS % heads == 0 else f", and {heads:g} does not divide 64"
    more = ", but so does a larger number" if heads < largest() else ""
    fits = f", which fits in 50{more}" if heads <= 10 else ", more than 50"
    return f"{size}{fits}{whole}."


TIMES = {  # as many heads fit as otherwise
    "leaving out the 8 sequences": BATCH, "leaving out the 80 layers": LAYERS,
    "counting keys or values alone": 2, "leaving out the 2 bytes": BYTES,
    "counting 4 bytes for a number": 1 / 2, "counting 16 bytes for a number, not 16 bits": 1 / 8,
}  # fmt: skip
MADE = Made(others={how: fitting(10 * times) for how, times in TIMES.items()})
EXERCISE = Exercise(
    name="cache_dial",
    answer="num_kv_heads",
    judge=Number(largest, rtol=1e-9),
    right=largest(),
    explain=(predicted(memory_of, MADE),),
    asks_for="number",
)
