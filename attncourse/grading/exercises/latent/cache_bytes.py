"""Exercise cache_bytes: the cache of DeepSeek-V2 for one long sequence."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import predicted

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
            return f"These are {unit}; the question asks for bytes."
    if abs(number / cache_bytes() - 1) < 2e-3:
        return "This is close, but a whole number is asked, with all its digits."
    each = number / (LAYERS * TOKENS * BYTES)
    return (
        f"Divided by 60 layers, 10,000 tokens and 2 bytes this leaves {each:,.6g} numbers for one "
        "token in one layer."
    )


EXERCISE = Exercise(
    name="cache_bytes",
    judge=Number(cache_bytes, rtol=1e-9),
    right=cache_bytes(),
    explain=(predicted(kept),),
    asks_for="number",
)
