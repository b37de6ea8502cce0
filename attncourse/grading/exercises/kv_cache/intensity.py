"""Exercise intensity: FLOPs per byte of a decoding step in which 8 query heads share a KV head."""

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

QUERY_HEADS, KV_HEADS, LENGTH, HEAD_DIM = 64, 8, 4096, 128


def count() -> float:
    """Head by head: 2 FLOPs for each number of the keys, and of the values."""
    flops = sum(2 * LENGTH * HEAD_DIM for _ in range(QUERY_HEADS) for _ in ("scores", "mix"))
    keys = torch.empty(KV_HEADS, LENGTH, HEAD_DIM, dtype=torch.bfloat16, device="meta")
    return flops / (2 * keys.nbytes)


def each(number: float) -> str:
    """What so many FLOPs for a byte are for a number of the cache."""
    if number <= 0:
        return "FLOPs and bytes are both more than 0, and so is their ratio."
    return (
        f"So many FLOPs for each byte are {2 * number:,.6g} for each cached number, which has 2 "
        f"bytes, and {number / 4:,.6g} for each of the 8 query heads that read it."
    )


FLOPS, BYTES = (4 * heads * LENGTH * HEAD_DIM for heads in (QUERY_HEADS, KV_HEADS))
PROJECTIONS = 4 * HEAD_DIM**2 * QUERY_HEADS * (QUERY_HEADS + KV_HEADS)  # their FLOPs
MADE = Made(
    {"the 2 FLOPs of a product": 2, "the 2 bytes": 1 / 2, "the 8 query heads of a KV head": 8},
    others={
        "counting scores or mix alone": 4, "reading keys or values alone": 16,
        "not dividing the FLOPs": FLOPS, "counting the bytes, not the FLOPs": BYTES,
        "counting the projections, too": (FLOPS + PROJECTIONS) / BYTES,
    },
)  # fmt: skip
EXERCISE = Exercise(
    name="intensity",
    answer="flops_per_byte",
    judge=Number(count),
    right=8,
    explain=(predicted(each, MADE),),
    asks_for="number",
)
