"""Exercise crossover: up to how many new tokens is the absorbed form cheaper?"""

from fractions import Fraction
from itertools import count

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS = 16, 64, 256, 32, 2_000


def flops(n: int, rows: int, width: int) -> int:
    """Both matrices meet so many rows; then n queries score and mix all tokens, in this width."""
    pairs = n * TOKENS
    return HEADS * 2 * (2 * rows * LATENT * HEAD_DIM + pairs * (width + ROTARY) + pairs * width)


def largest_n() -> int:
    """Counted up: plain moves all tokens, absorbed the new ones."""
    return next(n - 1 for n in count(1) if flops(n, n, LATENT) >= flops(n, TOKENS, HEAD_DIM))


ACCEPTED = Accepted(
    whole_number=81, as_a_float=81.0, as_a_tensor=torch.tensor(81), as_a_fraction=Fraction(162, 2),
    by_a_search=max(n for n in range(500) if flops(n, n, LATENT) < flops(n, TOKENS, HEAD_DIM)),
    by_algebra=LATENT * HEAD_DIM * TOKENS // (LATENT * HEAD_DIM + TOKENS * (LATENT - HEAD_DIM)),
)  # fmt: skip

LIMIT = LATENT * HEAD_DIM / (LATENT - HEAD_DIM)  # of an endless cache
MISTAKES = Mistakes(
    Mistake(says, number) for says, number in (
        ("At 82 tokens the plain form is already cheaper; 81 is the last at which it is not.", 82),
        ("At 81 tokens the absorbed form is cheaper as well.", 80),
        ("This is the limit of an endless cache; with 2,000 tokens the matrices that are moved count, too.", 85),
        ("This is the limit of an endless cache, and not a whole number.", LIMIT),
        ("The largest whole n is asked for.", 1 / (1 / LIMIT + 1 / TOKENS)),
        ("One of the moved matrices is missing, or only causal pairs are counted; count all n m pairs.", 83),
        ("The plain form makes keys and values; one of them is not counted here.", 40),
        ("Half the FLOPs of the matrices are missing: each form uses both; a multiply-add is two.", 41),
        ("Half of what a pair costs more is missing: latents are scored and mixed; a multiply-add is two.", 157),
        ("The mix is missing in the absorbed form; it mixes latents.", 226),
        ("The plain form makes keys and values of all m tokens, of the new ones as well.", 78),
        ("The rotary part is counted in the plain form only; it costs both forms the same.", 88),
        ("The rotary part is counted in the absorbed form only; it costs both forms the same.", 75),
        ("This is latent_dim / head_dim; the matrices that make keys and values cost something, too.", 4),
        ("The heads multiply both sides; n does not depend on them.", 81 * 16),
        ("All heads together are set against one; n does not depend on the heads.", 5),
        ("With a single token the absorbed form is cheaper, but one is not the last such number.", 1),
        ("This is head_dim; both widths matter.", HEAD_DIM),
        ("This is latent_dim; both widths matter.", LATENT),
        ("With as many new tokens as tokens, which is prefill, the plain form is cheaper.", TOKENS),
    )
)  # fmt: skip


class Crossover(Number):
    """Compares both forms at the number that was given."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.dim() or not found.value.isfinite():
            return "One whole number is asked: how many tokens are new."
        n = found.value.item()
        if n != int(n) or not 0 < n <= TOKENS:
            return "n is a whole number, at least 1 and at most the 2,000 tokens that there are."
        n = int(n)
        absorbed, plain = (flops(n, *form) / 1e9 for form in ((n, LATENT), (TOKENS, HEAD_DIM)))
        more = "more" if absorbed > plain else "fewer"
        also = "" if absorbed > plain else f", and so it does for n = {n + 1}"
        return f"For n = {n:,} the absorbed form takes {more} FLOPs, {absorbed:.3f} GFLOPs against {plain:.3f}{also}."


EXERCISE = Exercise(
    name="crossover",
    answer="largest_n",
    judge=Crossover(largest_n, rtol=1e-9),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
