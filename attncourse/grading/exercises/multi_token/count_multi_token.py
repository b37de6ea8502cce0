"""Exercise count_multi_token: what a kernel and a mix of heads add to a layer."""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

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


ASKED = (  # in a few words, and the thought that leads there
    ("new parameters",
     "Each of 12 heads has a kernel of 6 by 11 numbers; one matrix of 12 by 12 mixes them."),
    ("products of queries and keys",
     "Each of 12 heads has 1,000 by 1,000 scores, each a sum of 64 products of two FLOPs."),
    ("convolution",
     "At each of 1,000 by 1,000 places of 12 tables 66 numbers are multiplied and added, whether "
     "they lie in the table or not."),
    ("mix of the heads", "At each of 1,000 by 1,000 places each head takes of all 12."),
)  # fmt: skip
RIGHT = right()
ROWS, COLUMNS = (sum(TOKENS - abs(k - 5) for k in range(size)) for size in (6, 11))
JOINED, THIN = "letting kernels join all heads", "taking a row and a column for a kernel"


def made(place: int, products: int, **others: float) -> Made:
    """Of FLOPs, where each number of a table is a sum of so many products."""
    flops = RIGHT[place]
    parts = {"the 2 FLOPs of a product": 2, "the 12 heads": HEADS, "the 1,000 keys": TOKENS}
    return Made(parts, others=others | {
        "counting only keys up to the query": flops * (TOKENS + 1) / (2 * TOKENS),
        "counting one addition less than products": flops * (1 - 1 / (2 * products)),
    })  # fmt: skip


MADE = (
    Made(terms={"the kernels": HEADS * UNDER, "the mix": HEADS**2}, others={
        "counting one kernel for all heads": UNDER + HEADS**2, JOINED: HEADS**2 * (UNDER + 1),
        THIN: HEADS * (6 + 11) + HEADS**2, "adding a bias for each head": RIGHT[0] + HEADS,
        "adding two biases for each head": RIGHT[0] + 2 * HEADS,
    }),
    made(1, HEAD_DIM, **{"counting the mix of the values, too": 2 * RIGHT[1]}),
    made(2, UNDER, **{
        JOINED: RIGHT[2] * HEADS, THIN: RIGHT[2] * (6 + 11) / UNDER,
        "counting places only where the whole kernel lies in the table":
            2 * HEADS * UNDER * (TOKENS - 5) * (TOKENS - 10),
        "leaving out where the kernel sticks out of the table": 2 * HEADS * ROWS * COLUMNS,
    }),
    made(3, HEADS, **{"counting the mix twice": 2 * RIGHT[3],
                      "mixing outputs, not scores": RIGHT[3] * HEAD_DIM / TOKENS}),
)  # fmt: skip


EXERCISE = Exercise(
    name="count_multi_token",
    answer="counts",
    judge=Number(right, rtol=1e-9),
    right=RIGHT,
    asks_for="number",
    results=tuple(name for name, _ in ASKED),
    explain=(predicted(lambda place, number: ASKED[place][1], *MADE),),
)
