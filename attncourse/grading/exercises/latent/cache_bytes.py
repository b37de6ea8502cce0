"""Exercise cache_bytes: the cache of DeepSeek-V2 for one long sequence."""

from fractions import Fraction

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

LAYERS, NUM_HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS, BYTES = 60, 128, 128, 512, 64, 10_000, 2


def cache_bytes() -> int:
    """Token by token and layer by layer: one latent, one rotary key."""
    total = 0
    for _ in range(LAYERS):
        for cached in (LATENT, ROTARY):
            total += TOKENS * cached * BYTES
    return total


EXACT = LAYERS * TOKENS * (LATENT + ROTARY) * BYTES


def about(number: float) -> Close:
    """A wrong number, also when it is rounded."""
    return Close(torch.tensor(number, dtype=torch.float64), 2e-3)


ACCEPTED = Accepted(
    whole_number=691_200_000,
    as_a_float=691.2e6,
    as_a_tensor=torch.tensor(691_200_000),
    as_a_product=60 * 10_000 * 576 * 2,
    as_a_fraction=Fraction(60 * 576 * 10_000 * 16, 8),
)

MISTAKES = Mistakes()
for says, number in (
    ("These are numbers, not bytes; bfloat16 takes 2 bytes a number.", EXACT / 2),
    ("This is twice the number: bfloat16 takes 2 bytes, and one latent serves keys and values alike.", EXACT * 2),
    ("This is one layer; there are 60.", EXACT / LAYERS),
    ("This is one token; there are 10,000.", EXACT / TOKENS),
    ("This is one token in one layer: 576 numbers of 2 bytes.", EXACT / TOKENS / LAYERS),
    ("The rotary key is forgotten; it is cached beside the latent.",
     LAYERS * TOKENS * LATENT * BYTES),
    ("Nothing but the rotary key is counted; the latent is cached beside it.",
     LAYERS * TOKENS * ROTARY * BYTES),
    ("The latent is counted twice, for keys and for values; one latent serves both.",
     LAYERS * TOKENS * (2 * LATENT + ROTARY) * BYTES),
    ("Every head has a latent here; one latent and one rotary key serve all 128.",
     NUM_HEADS * EXACT),
    ("Every head has a rotary key here; one serves all 128.",
     LAYERS * TOKENS * (LATENT + NUM_HEADS * ROTARY) * BYTES),
    ("This is a cache of multi-head keys and values; only the latent and the rotary key are kept.",
     LAYERS * TOKENS * 2 * NUM_HEADS * HEAD_DIM * BYTES),
    ("This is a cache of multi-head keys and values, with rotary parts in the keys; only the latent "
     "and one rotary key are kept.", LAYERS * TOKENS * NUM_HEADS * (2 * HEAD_DIM + ROTARY) * BYTES),
    ("These are the keys and values of one head (multi-query attention); what is kept is the latent "
     "and the rotary key.", LAYERS * TOKENS * 2 * HEAD_DIM * BYTES),
    ("These are megabytes (10^6 bytes); the question asks for bytes.", EXACT / 1e6),
    ("These are mebibytes (2^20 bytes); the question asks for bytes.", EXACT / 2**20),
    ("These are gigabytes (10^9 bytes); the question asks for bytes.", EXACT / 1e9),
    ("These are gibibytes (2^30 bytes); the question asks for bytes.", EXACT / 2**30),
    ("These are bits; a byte has 8.", EXACT * 8),
):  # fmt: skip
    MISTAKES.add(says)(about(number))


EXERCISE = Exercise(
    name="cache_bytes",
    answer="cache_bytes",
    title="The cache of DeepSeek-V2",
    kind="Predict",
    points=1,
    difficulty=1,
    minutes=5,
    needs="sections 'What changes' and 'What it costs' of chapter 7",
    judge=Number(cache_bytes, rtol=1e-4),
    hints=(
        "What does one layer keep for one token? Not keys, and not values.",
        "512 + 64 numbers for all heads together, 2 bytes each.",
        "layers * tokens * (latent_dim + rotary_dim) * 2",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
