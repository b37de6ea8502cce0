"""Exercise count_multi_token: what a kernel and a mix of heads add to a layer."""

from torch import nn

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import each_predicted

HEADS, HEAD_DIM, TOKENS, C_Q, C_K = 12, 64, 1000, 6, 11
WIDTH, UNDER, PAIRS = HEADS * HEAD_DIM, C_Q * C_K, TOKENS * TOKENS


def right() -> tuple[int, int, int, int]:
    """New parameters; FLOPs of products, convolution and mix, a row of a table at a time."""
    kernels = nn.Conv2d(HEADS, HEADS, (C_Q, C_K), groups=HEADS, bias=False, device="meta")
    mix = nn.Linear(HEADS, HEADS, bias=False, device="meta")
    products = convolution = mixed = 0
    for _ in range(HEADS):
        for _ in range(TOKENS):
            products += TOKENS * (2 * HEAD_DIM)
            convolution += TOKENS * (2 * kernels.weight[0].numel())
            mixed += TOKENS * (2 * HEADS)
    return kernels.weight.numel() + mix.weight.numel(), products, convolution, mixed


RIGHT = right()
ASKED = (  # in a few words, and the thought that leads to the number
    ("new parameters",
     "Each of 12 heads has a kernel of 6 by 11 numbers; one matrix of 12 by 12 mixes them."),
    ("products of queries and keys",
     "Each of 12 heads has 1,000 by 1,000 scores, each a sum of 64 products of two FLOPs."),
    ("convolution",
     "At each of 1,000 by 1,000 places of 12 tables 66 numbers are multiplied and added."),
    ("mix of the heads", "At each of 1,000 by 1,000 places each head takes of all 12."),
)  # fmt: skip
OTHERS = (  # wrong numbers that people write, and what they are
    {UNDER + HEADS**2: "one kernel for all heads, and the mix", HEADS * UNDER: "the kernels alone",
     HEADS**2: "the mix alone", HEADS * UNDER + HEADS: "a mix of one number a head",
     HEADS**2 * UNDER + HEADS**2: "kernels that join every head with every head"},
    {PAIRS * HEADS: "the number of scores", 2 * PAIRS * HEAD_DIM: "the FLOPs of one head",
     2 * PAIRS * WIDTH * HEADS: "heads as wide as the layer",
     4 * TOKENS * WIDTH**2: "the projections"},
    {2 * PAIRS * UNDER: "the FLOPs of one head", 2 * PAIRS * HEADS**2 * UNDER: "joined heads",
     2 * TOKENS * HEADS * UNDER: "once for each token, not for each pair"},
    {2 * PAIRS * HEADS: "each head with one other",
     2 * TOKENS * HEADS**2: "once for each token, not for each pair",
     2 * TOKENS * HEADS**2 * HEAD_DIM: "a mix of outputs, not of scores"},
)  # fmt: skip


def told(place: int, number: float) -> str:
    """What a wrong number is, if people write it, and what leads to the right one."""
    known = OTHERS[place].get(number)
    times = number / RIGHT[place]
    this = f"this is {known}" if known else f"this is {times:.4g} times what it should be"
    return f"{this}. {ASKED[place][1]}"


EXERCISE = Exercise(
    name="count_multi_token",
    answer="counts",
    judge=Number(right, rtol=1e-9),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted([name for name, _ in ASKED], told),),
    ideas=[
        Mistake(
            "Only visible pairs are counted; those that are hidden are computed as well.",
            [RIGHT[0], *(x * (TOKENS + 1) // (2 * TOKENS) for x in RIGHT[1:])],
        ),
        Mistake(
            "All FLOPs are half of what they should be: a multiplication and the addition that "
            "follows are two.",
            [RIGHT[0], *(x // 2 for x in RIGHT[1:])],
        ),
        Mistake("Convolution and mix are exchanged.", [*RIGHT[:2], RIGHT[3], RIGHT[2]]),
    ],
)
