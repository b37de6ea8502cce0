"""Exercise cache_dial: the largest number of key heads whose cache fits."""

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

LAYERS, NUM_HEADS, HEAD_DIM = 80, 64, 128
BATCH, LENGTH, BYTES = 8, 16_384, 2
MEMORY = 50 * 2**30


def largest() -> int:
    """Try every divisor of the number of query heads."""
    fits = []
    for g in range(1, NUM_HEADS + 1):
        if NUM_HEADS % g == 0:
            numbers = 0
            for _ in ("keys", "values"):
                numbers += BATCH * LAYERS * LENGTH * g * HEAD_DIM
            if numbers * BYTES <= MEMORY:
                fits.append(g)
    return max(fits)


ACCEPTED = Accepted(
    whole_number=8,
    as_a_float=8.0,
    as_a_tensor=torch.tensor(8),
    from_the_ratio=64 // 8,
)

MISTAKES = Mistakes()
for says, number in (
    ("10 key heads would fit, but 10 does not divide 64.", 10),
    ("16 key heads need 80 GiB. Keys and values are both kept, and each number takes 2 bytes.", 16),
    ("32 key heads need 160 GiB. Count keys and values, 2 bytes each.", 32),
    ("64 is multi-head attention, which needs 320 GiB. Count all layers and all sequences.", 64),
    ("4 fits, in 20 GiB, but so does a larger number; 16-bit numbers take 2 bytes.", 4),
    ("2 fits, in 10 GiB, but so does a larger number.", 2),
    ("1 fits, in 5 GiB, but so does a larger number.", 1),
    ("9 key heads would fit, but 9 does not divide 64.", 9),
    ("That is the number of GiB of one key head; asked is how many key heads fit.", 5),
    ("That is the cache in GiB; asked is the number of key heads.", 40),
    ("20 heads is what fits when keys or values are forgotten, or a byte; and 20 does not divide 64.", 20),
    ("80 is the number of layers; asked is the number of key heads.", 80),
):  # fmt: skip
    MISTAKES.add(says)(number)


EXERCISE = Exercise(
    name="cache_dial",
    answer="num_kv_heads",
    title="Set the dial",
    kind="Predict",
    points=1,
    difficulty=2,
    minutes=10,
    needs="section 'What it costs' of chapter 6",
    judge=Number(largest, rtol=1e-9),
    hints=(
        "What does one key head cost, together with its value head, over all layers, sequences and tokens?",
        "2 * 8 * 80 * 16,384 * 128 numbers of 2 bytes are 5 GiB.",
        "50 GiB hold 10 key heads. The number must divide 64.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
