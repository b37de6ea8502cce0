"""Exercise cache_bytes: the cache of DeepSeek-V2 for one long sequence."""

from fractions import Fraction

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

LAYERS, HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS, BYTES = 60, 128, 128, 512, 64, 10_000, 2


def cache_bytes() -> int:
    """Layer by layer: one latent and one rotary key for every token."""
    return sum(TOKENS * cached * BYTES for _ in range(LAYERS) for cached in (LATENT, ROTARY))


ACCEPTED = Accepted(
    whole_number=691_200_000,
    as_a_float=691.2e6,
    as_a_tensor=torch.tensor(691_200_000),
    as_a_product=60 * 10_000 * 576 * 2,
    as_a_fraction=Fraction(60 * 576 * 10_000 * 16, 8),
)

EXACT, ROWS = 691_200_000, LAYERS * TOKENS * BYTES
MISTAKES = Mistakes(  # also where they are rounded
    Mistake(says, Close(torch.tensor(number, dtype=torch.float64), 2e-3)) for says, number in (
        ("These are numbers, not bytes; bfloat16 takes 2 bytes a number.", EXACT / 2),
        ("This is twice the number: bfloat16 takes 2 bytes, and one latent serves keys and values alike.", EXACT * 2),
        ("This is one layer; there are 60.", EXACT / LAYERS),
        ("This is one token; there are 10,000.", EXACT / TOKENS),
        ("This is one token in one layer: 576 numbers of 2 bytes.", EXACT / TOKENS / LAYERS),
        ("These are the numbers of one token in one layer, not the bytes of all.", LATENT + ROTARY),
        ("The rotary key is forgotten; it is cached beside the latent.", ROWS * LATENT),
        ("Nothing but the rotary key is counted; the latent is cached beside it.", ROWS * ROTARY),
        ("The latent is counted twice, for keys and for values; one latent serves both.", ROWS * (2 * LATENT + ROTARY)),
        ("Every head has a latent here; one latent and one rotary key serve all 128.", HEADS * EXACT),
        ("Every head has a rotary key here; one serves all 128.", ROWS * (LATENT + HEADS * ROTARY)),
        ("The latent and a key of one head are counted; the rotary key has 64 numbers.", ROWS * (LATENT + HEAD_DIM)),
        ("This is a cache of multi-head keys and values; only the latent and the rotary key are kept.",
         ROWS * 2 * HEADS * HEAD_DIM),
        ("This is a cache of multi-head keys and values, with rotary parts in the keys; only the latent "
         "and one rotary key are kept.", ROWS * HEADS * (2 * HEAD_DIM + ROTARY)),
        ("These are the bytes of keys and values of one head, or the numbers of the latents; what is asked "
         "are the bytes of latents and rotary keys.", ROWS * 2 * HEAD_DIM),
        ("These are megabytes (10^6 bytes); the question asks for bytes.", EXACT / 1e6),
        ("These are mebibytes (2^20 bytes); the question asks for bytes.", EXACT / 2**20),
        ("These are gigabytes (10^9 bytes); the question asks for bytes.", EXACT / 1e9),
        ("These are gibibytes (2^30 bytes); the question asks for bytes.", EXACT / 2**30),
        ("These are kilobytes (10^3 bytes); the question asks for bytes.", EXACT / 1e3),
        ("These are kibibytes (2^10 bytes); the question asks for bytes.", EXACT / 2**10),
        ("Each number takes 4 bytes here and is counted twice; bfloat16 takes 2, and one latent serves both.", EXACT * 4),
        ("These are 10,240 tokens; there are 10,000.", EXACT * 1.024),
        ("These are 100,000 tokens; there are 10,000.", EXACT * 10),
        ("The rotary key is counted in one layer only; every layer caches its own.", ROWS * LATENT + 2 * TOKENS * ROTARY),
        ("These are bits; a byte has 8.", EXACT * 8),
        ("This is close, but the number of bytes is asked: a whole number, with all its digits.", EXACT * 1.0001),
    )
)  # fmt: skip


class Bytes(Number):
    """Says what a number of bytes is for one token in one layer."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.dim() or not found.value.isfinite():
            return "One whole number is asked: all bytes of the cache."
        kept = f"{found.value.item() / ROWS:,.6g}"
        return f"Divided by 60 layers, 10,000 tokens and 2 bytes this leaves {kept} numbers for one token in one layer."


EXERCISE = Exercise(
    name="cache_bytes", judge=Bytes(cache_bytes, rtol=1e-9), accepted=ACCEPTED, mistakes=MISTAKES
)
