"""Exercise crossover: up to how many new tokens is the absorbed form cheaper?"""

from itertools import count

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS = 16, 64, 256, 32, 2_000


def parts(n: int, rows: int, width: int) -> tuple[int, int]:
    """Both matrices meet so many rows; then n queries score and mix all tokens, in this width."""
    matrices = HEADS * 2 * rows * 2 * LATENT * HEAD_DIM
    return matrices, HEADS * 2 * n * TOKENS * (width + ROTARY + width)


def flops(n: int, rows: int, width: int) -> int:
    return sum(parts(n, rows, width))


def largest_n() -> int:
    """Counted up: plain moves all tokens, absorbed the new ones."""
    return next(n - 1 for n in count(1) if flops(n, n, LATENT) >= flops(n, TOKENS, HEAD_DIM))


def compared(number: float) -> str:
    """Both forms at the number that was given; of 0 tokens, at 1."""
    if number != int(number) or not 0 <= number <= TOKENS:
        return "n is a whole number, at least 1 and at most the 2,000 tokens that there are."
    n = max(1, int(number))
    absorbed, plain = (parts(n, *form) for form in ((n, LATENT), (TOKENS, HEAD_DIM)))
    more = "more" if sum(absorbed) > sum(plain) else "less"
    also = "" if more == "more" else f" For n = {n + 1} it takes less, too."
    told = "{:.3f} GFLOPs for the matrices and {:.3f} for scores and mix, against {:.3f} and {:.3f}"
    told = told.format(*(x / 1e9 for x in (*absorbed, *plain)))
    return f"For n = {n:,} the absorbed form takes {more}: {told} of the plain form.{also}"


(ONE, EACH), (_, LESS) = parts(1, 1, LATENT), parts(1, 1, HEAD_DIM)  # FLOPs of one new token
MADE = Made(exact=ONE * TOKENS / (ONE + EACH - LESS))
EXERCISE = Exercise(
    name="crossover",
    answer="largest_n",
    judge=Number(largest_n, rtol=1e-9),
    right=largest_n(),
    explain=(predicted(compared, MADE),),
    asks_for="number",
)
