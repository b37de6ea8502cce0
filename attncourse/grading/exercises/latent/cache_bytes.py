"""Exercise cache_bytes: the cache of DeepSeek-V2 for one long sequence."""

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import predicted

LAYERS, HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS, BYTES = 60, 128, 128, 512, 64, 10_000, 2
ROWS = LAYERS * TOKENS * BYTES  # bytes of one number for each token in each layer


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
    return (
        "Divided by 60 layers, 10,000 tokens and 2 bytes this leaves "
        f"{number / ROWS:,.6g} numbers for one token in one layer."
    )


EXERCISE = Exercise(
    name="cache_bytes",
    judge=Number(cache_bytes, rtol=1e-9),
    right=cache_bytes(),
    explain=(predicted(kept),),
    asks_for="number",
    ideas=[
        Mistake(says, number)
        for says, number in (
            ("These are numbers, not bytes; bfloat16 takes 2 bytes a number.", cache_bytes() // 2),
            ("The rotary key is forgotten; it is cached beside the latent.", ROWS * LATENT),
            ("The latent is counted twice, for keys and for values; one latent serves both.",
             ROWS * (2 * LATENT + ROTARY)),
            ("Every head has a rotary key here; one serves all 128.",
             ROWS * (LATENT + HEADS * ROTARY)),
            ("This is a cache of multi-head keys and values; only the latent and the rotary key "
             "are kept.", ROWS * 2 * HEADS * HEAD_DIM),
        )
    ],
)  # fmt: skip
