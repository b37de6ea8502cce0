"""Exercise cache_bytes: the cache of DeepSeek-V2 for one long sequence."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

LAYERS, LATENT, ROTARY, TOKENS, BYTES = 60, 512, 64, 10_000, 2


def cache_bytes() -> int:
    """Layer by layer: one latent and one rotary key for every token."""
    return sum(TOKENS * cached * BYTES for _ in range(LAYERS) for cached in (LATENT, ROTARY))


UNITS = {
    "kilobytes (10^3 bytes)": 1e3, "kibibytes (2^10 bytes)": 2**10,
    "megabytes (10^6 bytes)": 1e6, "mebibytes (2^20 bytes)": 2**20,
    "gigabytes (10^9 bytes)": 1e9, "gibibytes (2^30 bytes)": 2**30,
}  # fmt: skip


def kept(number: float) -> str:
    """What a number of bytes leaves for one token in one layer."""
    for unit, size in UNITS.items():
        if abs(number * size / cache_bytes() - 1) < 2e-3:
            return f"In {unit} this is right; the question asks for bytes."
    each = number / (LAYERS * TOKENS * BYTES)
    return (
        f"Divided by 60 layers, 10,000 tokens and 2 bytes this leaves {each:,.6g} numbers for one "
        "token in one layer."
    )


HEADS, ONE = 128, LAYERS * TOKENS * BYTES  # bytes of one number for each token in each layer
MADE = Made(
    {"the 60 layers": LAYERS, "the 10,000 tokens": TOKENS, "the 2 bytes": BYTES},
    {"the rotary key": ROTARY * ONE, "the latent": LATENT * ONE},
    {"counting bits": 8 * ONE * (LATENT + ROTARY),
     "keeping keys and values of all heads": 2 * HEADS * 128 * ONE,
     "keeping a rotary key for each head": (LATENT + HEADS * ROTARY) * ONE},
)  # fmt: skip
EXERCISE = Exercise(
    name="cache_bytes",
    judge=Number(cache_bytes, rtol=1e-9),
    right=cache_bytes(),
    explain=(predicted(kept, MADE),),
    asks_for="number",
)
