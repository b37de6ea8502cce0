"""Exercise crossover: up to how many new tokens is the absorbed form cheaper?"""

from itertools import count

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import predicted

HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS = 16, 64, 256, 32, 2_000


def flops(n: int, rows: int, width: int) -> int:
    """Both matrices meet so many rows; then n queries score and mix all tokens, in this width."""
    pairs = n * TOKENS
    return HEADS * 2 * (2 * rows * LATENT * HEAD_DIM + pairs * (width + ROTARY) + pairs * width)


def largest_n() -> int:
    """Counted up: plain moves all tokens, absorbed the new ones."""
    return next(n - 1 for n in count(1) if flops(n, n, LATENT) >= flops(n, TOKENS, HEAD_DIM))


def compared(number: float) -> str:
    """Both forms at the number that was given."""
    if number != int(number) or not 0 < number <= TOKENS:
        return "n is a whole number, at least 1 and at most the 2,000 tokens that there are."
    n = int(number)
    absorbed, plain = (flops(n, *form) / 1e9 for form in ((n, LATENT), (TOKENS, HEAD_DIM)))
    more = "more" if absorbed > plain else "fewer"
    also = "" if absorbed > plain else f", and so it does for n = {n + 1}"
    return (
        f"For n = {n:,} the absorbed form takes {more} FLOPs, {absorbed:.3f} GFLOPs against "
        f"{plain:.3f}{also}."
    )


EXERCISE = Exercise(
    name="crossover",
    answer="largest_n",
    judge=Number(largest_n, rtol=1e-9),
    right=largest_n(),
    explain=(predicted(compared),),
    asks_for="number",
    ideas=[
        Mistake(says, n)
        for says, n in (
            ("This is the limit of an endless cache; with 2,000 tokens the matrices that are moved "
             "count, too.", 85),
            ("The plain form makes keys and values; one of them is not counted here.", 40),
            ("The mix is missing in the absorbed form; it mixes latents.", 226),
            ("The plain form makes keys and values of all m tokens, of the new ones as well.", 78),
            ("The rotary part is counted in one form only; it costs both forms the same.", 88),
        )
    ],
)  # fmt: skip
