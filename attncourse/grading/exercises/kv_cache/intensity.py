"""Exercise intensity: FLOPs per byte of a decoding step in which 8 query heads share a KV head."""

import torch

from attncourse.grading.exercise import Exercise, Mistake, Number

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


def size(asked):
    """What its size says of a number, whatever it is."""
    found = asked.seen["the number"].value
    return next((says for most, says in SIZES if not found.dim() and found.item() < most), "")


EXERCISE = Exercise(
    name="intensity",
    answer="flops_per_byte",
    judge=Number(count),
    right=8,
    explain=(size,),
    asks_for="number",
    ideas=[Mistake(says, number) for says, number in (
        ("1 is what a KV head for every query head gives; here 8 read the same keys.", 1),
        ("These are bytes per FLOP, or the FLOPs of one query head for each byte; divide the FLOPs "
         "of all 64 heads by the bytes.", 1 / 8),
        ("This is half the number: a multiplication and an addition are 2 FLOPs, scores and mix "
         "both count, and a number has 2 bytes.", 4),
        ("This is twice the number: a number has 2 bytes; both keys and values are read.", 16),
        ("The length does not stay: FLOPs and bytes both grow with it.", 8 * 4096),
        ("This is 8 times the number: the FLOPs of 64 query heads, for each byte of a single KV "
         "head. 8 KV heads are read.", 64),
    )],
)  # fmt: skip
