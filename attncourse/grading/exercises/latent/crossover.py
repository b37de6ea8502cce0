"""Exercise crossover: up to how many new tokens is the absorbed form cheaper?"""

from fractions import Fraction

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

HEADS, HEAD_DIM, LATENT, ROTARY, TOKENS = 16, 64, 256, 32, 2_000


def plain_flops(n: int) -> int:
    """Keys and values of all tokens, head by head; scores; mix."""
    make = 2 * (2 * TOKENS * LATENT * HEAD_DIM)
    return HEADS * (make + 2 * n * TOKENS * (HEAD_DIM + ROTARY) + 2 * n * TOKENS * HEAD_DIM)


def absorbed_flops(n: int) -> int:
    """w_k into the queries and w_v behind the mix; scores against latents; mix of latents."""
    move = 2 * (2 * n * LATENT * HEAD_DIM)
    return HEADS * (move + 2 * n * TOKENS * (LATENT + ROTARY) + 2 * n * TOKENS * LATENT)


def largest_n() -> int:
    """Counted up, one by one."""
    n = 1
    while absorbed_flops(n + 1) < plain_flops(n + 1):
        n += 1
    return n


ACCEPTED = Accepted(
    whole_number=81,
    as_a_float=81.0,
    as_a_tensor=torch.tensor(81),
    as_a_fraction=Fraction(162, 2),
    by_a_search=max(n for n in range(1, 500) if absorbed_flops(n) < plain_flops(n)),
    by_algebra=LATENT * HEAD_DIM * TOKENS // (LATENT * HEAD_DIM + TOKENS * (LATENT - HEAD_DIM)),
)

MISTAKES = Mistakes()
for says, number in (
    ("At 82 tokens the plain form is already cheaper; 81 is the last at which it is not.", 82),
    ("This is the limit of an endless cache, or the matrices that are moved to the queries and behind "
     "the mix are not counted; with 2,000 tokens they matter.", 85),
    ("Only one of the two moved matrices is counted; w_v stands behind the mix.", 83),
    ("The largest whole n is asked for.", LATENT * HEAD_DIM * TOKENS
     / (LATENT * HEAD_DIM + TOKENS * (LATENT - HEAD_DIM))),
    ("The plain form makes keys and values; one of them is not counted here.", 40),
    ("Only keys are made, and only w_k is moved; there are values and w_v, too.", 41),
    ("This is the limit of an endless cache, and not a whole number; with 2,000 tokens the matrices "
     "that are moved matter.", LATENT * HEAD_DIM / (LATENT - HEAD_DIM)),
    ("The mix is counted with head_dim in the absorbed form; it mixes latents.", 157),
    ("The rotary part is counted in the plain form only; it costs both forms the same.", 88),
    ("The rotary part is counted in the absorbed form only; it costs both forms the same.", 75),
    ("This is latent_dim / head_dim; the matrices that make keys and values cost something, too.", 4),
    ("The heads multiply both sides; n does not depend on them.", 81 * 16),
    ("All heads together are set against one; n does not depend on the heads.", 5),
    ("With a single token the absorbed form is cheaper, but one is not the last such number.", 1),
    ("This is head_dim; both widths matter.", 64),
    ("This is latent_dim; both widths matter.", 256),
    ("With as many new tokens as tokens, which is prefill, the plain form is cheaper.", 2_000),
):  # fmt: skip
    MISTAKES.add(says)(number)


EXERCISE = Exercise(
    name="crossover",
    answer="largest_n",
    title="Where plain overtakes absorbed",
    kind="Measure",
    points=2,
    difficulty=3,
    minutes=15,
    needs="section 'What it costs' of chapter 7",
    judge=Number(largest_n, rtol=1e-6),
    hints=(
        "Write both counts as functions of n, with m fixed, and go up from n = 1.",
        "Per head, plain: 4 m latent head_dim + 2 n m (2 head_dim + rotary). Absorbed: "
        "4 n latent head_dim + 2 n m (2 latent + rotary).",
        "They are equal at n = latent head_dim m / (latent head_dim + m (latent - head_dim)); "
        "take the whole number below.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
