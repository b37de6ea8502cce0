"""Exercise cache_dial: the largest number of key/value heads whose cache fits."""

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

LAYERS, NUM_HEADS, HEAD_DIM = 80, 64, 128
BATCH, LENGTH, BYTES = 8, 16_384, 2
MEMORY = 50 * 2**30


def largest() -> int:
    """Try every divisor of the number of query heads."""
    one = sum(BATCH * LAYERS * LENGTH * HEAD_DIM * BYTES for _ in ("keys", "values"))
    return max(g for g in range(1, NUM_HEADS + 1) if NUM_HEADS % g == 0 and g * one <= MEMORY)


ACCEPTED = Accepted(
    whole_number=8, as_a_float=8.0, as_a_tensor=torch.tensor(8), from_the_ratio=64 // 8
)

MISTAKES = Mistakes(Mistake(says, number) for says, number in (
    ("10 KV heads would fit, but 10 does not divide 64.", 10),
    ("16 KV heads need 80 GiB. Keys and values are both kept, and each number takes 2 bytes.", 16),
    ("32 KV heads need 160 GiB. Count keys and values, 2 bytes each.", 32),
    ("64 is multi-head attention, which needs 320 GiB. Count all layers and all sequences.", 64),
    ("4 fits, in 20 GiB, but so does a larger number; 16-bit numbers take 2 bytes.", 4),
    ("2 fits, in 10 GiB, but so does a larger number.", 2),
    ("1 fits, in 5 GiB, but so does a larger number.", 1),
    ("9 KV heads would fit, but 9 does not divide 64.", 9),
    ("That is the number of GiB of one KV head; asked is how many KV heads fit.", 5),
    ("That is the cache in GiB; asked is the number of KV heads.", 40),
    ("20 heads is what fits when keys or values are forgotten, or a byte; and 20 does not divide 64.", 20),
    ("80 is the number of layers; asked is the number of KV heads.", 80),
    ("6 KV heads would fit, but 6 does not divide 64, and a larger number fits.", 6),
    ("7 KV heads would fit, but 7 does not divide 64, and a larger number fits.", 7),
    ("12 KV heads need 60 GiB, and 12 does not divide 64.", 12),
    ("That is how many times the cache of multi-head attention is larger than the memory; asked is the number "
     "of KV heads.", 6.4),
    ("No model has 0 KV heads: with one, the cache takes 5 GiB.", 0),
))  # fmt: skip


class Dial(Number):
    """Says what is true of any number of KV heads."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.dim() or not found.value.isfinite():
            return "One whole number is asked: how many KV heads fit."
        heads = found.value.item()
        if heads != int(heads) or heads < 1:
            return "A number of KV heads is whole, and at least 1."
        size = f"{heads:,g} KV heads need {5 * heads:,g} GiB"
        if heads > NUM_HEADS:
            return f"{size}; and there are only 64 query heads to share them."
        whole = "" if NUM_HEADS % heads == 0 else f", and {heads:g} does not divide 64"
        return f"{size}{' of the 50' if heads <= 10 else ', more than 50'}{whole}."


EXERCISE = Exercise(
    name="cache_dial",
    answer="num_kv_heads",
    judge=Dial(largest, rtol=1e-9),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
