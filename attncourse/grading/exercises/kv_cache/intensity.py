"""Exercise intensity: FLOPs per byte of a decoding step in which 8 query heads share a KV head."""

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import predicted

QUERY_HEADS, KV_HEADS, LENGTH, HEAD_DIM = 64, 8, 4096, 128


def count() -> float:
    """Head by head: 2 FLOPs for each number of the keys, and of the values."""
    flops = sum(2 * LENGTH * HEAD_DIM for _ in range(QUERY_HEADS) for _ in ("scores", "mix"))
    keys = torch.empty(KV_HEADS, LENGTH, HEAD_DIM, dtype=torch.bfloat16, device="meta")
    return flops / (2 * keys.nbytes)


SIZES = (  # below this, the sentence is true
    (1e-12, "FLOPs and bytes are both more than 0, and so is their ratio."),
    (1.0, "This is less than 1 FLOP for each byte. A single query head does 2 FLOPs with a number "
     "of 2 bytes, and 8 read it."),
    (7.5, "This is too small: 8 query heads read each cached number; each multiplies and adds it."),
    (8.5, "This is near, but nothing is rounded here: count exactly, FLOPs and bytes alike."),
    (512.0, "This is too large: all bytes count that are read, of 8 KV heads, keys and values, 2 "
     "for each number."),
    (2.0**20, "This is far too large. Neither the length nor head_dim stays: FLOPs and bytes both "
     "grow with them."),
    (float("inf"), "So large a number is no ratio of the two: divide the FLOPs by the bytes."),
)  # fmt: skip


def size(number: float) -> str:
    """What its size says of a number, whatever it is."""
    return next(says for most, says in SIZES if number < most)


EXERCISE = Exercise(
    name="intensity",
    answer="flops_per_byte",
    judge=Number(count),
    right=8,
    explain=(predicted(size),),
    asks_for="number",
)
