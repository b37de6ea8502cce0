"""Exercise intensity: FLOPs per byte of a decoding step in which 8 query heads share a key head."""

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

QUERY_HEADS, KEY_HEADS, LENGTH, HEAD_DIM, BYTES = 64, 8, 4096, 128, 2


def count() -> float:
    """Head by head: a multiplication and an addition for each number of the keys, and of the values."""
    flops = sum(2 * LENGTH * HEAD_DIM for _ in range(QUERY_HEADS) for _ in ("scores", "mix"))
    keys = torch.empty(KEY_HEADS, LENGTH, HEAD_DIM, dtype=torch.bfloat16, device="meta")
    return flops / (2 * keys.nbytes)


ACCEPTED = Accepted(
    whole_number=8,
    as_a_float=8.0,
    as_a_tensor=torch.tensor(8.0),
    counted=(64 * 4 * 4096 * 128) / (8 * 2 * 4096 * 128 * 2),
)

MISTAKES = Mistakes()
for says, number in (
    ("This is with a key head for every query head; here 8 query heads read the same keys.", 1),
    ("These are bytes per FLOP; divide the FLOPs by the bytes.", 1 / 8),
    ("Half is missing: a multiplication and an addition are 2 FLOPs, and scores and mix both count.", 4),
    ("These are FLOPs per number; a number has 2 bytes.", 16),
    ("The length does not stay: FLOPs and bytes both grow with it.", 8 * 4096),
    ("These are FLOPs; divide them by the bytes that are read.", 64 * 4 * 4096 * 128),
    ("These are the bytes that are read; divide the FLOPs by them.", 8 * 2 * 4096 * 128 * 2),
    ("The 64 query heads are counted, but not that 8 key heads are read.", 64),
    ("One query head is counted against all 8 key heads; there are 64.", 1 / 64),
    ("This is what one query head does with a number, in FLOPs; 8 of them do, and it has 2 bytes.", 2),
):  # fmt: skip
    MISTAKES.add(says)(number)

EXERCISE = Exercise(
    name="intensity",
    answer="flops_per_byte",
    title="FLOPs per byte",
    kind="Predict",
    points=1,
    difficulty=2,
    minutes=5,
    needs="section 'What it costs' of chapter 4",
    judge=Number(count),
    hints=(
        "Count one cached number: how often is it used, and how many bytes does it have?",
        "A number of a key is multiplied and added once for each query head that reads it.",
        "8 query heads read each key head: 8 times 2 FLOPs for 2 bytes.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
