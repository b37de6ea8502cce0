"""Exercise count_multi_token: what a kernel and a mix of heads add to a layer."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import each_predicted

HEADS, HEAD_DIM, TOKENS, UNDER = 12, 64, 1000, 6 * 11  # UNDER a kernel lie so many scores
PAIRS = TOKENS**2


def right() -> tuple[int, int, int, int]:
    """New parameters; FLOPs of products, convolution and mix, one table after the other."""
    products = convolution = mix = 0
    for _ in range(HEADS):
        products += PAIRS * 2 * HEAD_DIM
        convolution += PAIRS * 2 * UNDER
        mix += PAIRS * 2 * HEADS
    return HEADS * UNDER + HEADS**2, products, convolution, mix


ASKED = (  # in a few words, the thought that leads there, and wrong numbers that people write
    ("new parameters",
     "Each of 12 heads has a kernel of 6 by 11 numbers; one matrix of 12 by 12 mixes them.",
     {UNDER + HEADS**2: "one kernel for all heads, and the mix", HEADS**2: "the mix alone",
      HEADS * UNDER: "the kernels alone", HEADS * UNDER + HEADS: "a mix of one number a head",
      HEADS**2 * UNDER + HEADS**2: "kernels that join every head with every head"}),
    ("products of queries and keys",
     "Each of 12 heads has 1,000 by 1,000 scores, each a sum of 64 products of two FLOPs.",
     {PAIRS * HEADS: "the number of scores", 2 * PAIRS * HEAD_DIM: "the FLOPs of one head",
      2 * PAIRS * HEADS**2 * HEAD_DIM: "heads as wide as the layer"}),
    ("convolution",
     "At each of 1,000 by 1,000 places of 12 tables 66 numbers are multiplied and added.",
     {2 * PAIRS * UNDER: "the FLOPs of one head", 2 * PAIRS * HEADS**2 * UNDER: "joined heads",
      2 * TOKENS * HEADS * UNDER: "once for each token, not for each pair"}),
    ("mix of the heads", "At each of 1,000 by 1,000 places each head takes of all 12.",
     {2 * PAIRS * HEADS: "each head with one other",
      2 * TOKENS * HEADS**2: "once for each token, not for each pair",
      2 * TOKENS * HEADS**2 * HEAD_DIM: "a mix of outputs, not of scores"}),
)  # fmt: skip
RIGHT = right()


def told(place: int, number: float) -> str:
    """What a wrong number is, if people write it, and what leads to the right one."""
    _, thought, others = ASKED[place]
    times = f"{number / RIGHT[place]:.4g} times what it should be"
    return f"this is {others.get(number, times)}. {thought}"


EXERCISE = Exercise(
    name="count_multi_token",
    answer="counts",
    judge=Number(right, rtol=1e-9),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted([name for name, *_ in ASKED], told),),
)
