"""Exercise count_parameters: how many numbers does a layer with 16 heads learn?"""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import predicted
from attncourse.grading.mistake import Mistake

WIDTH, HEADS = 512, 16
ONE = WIDTH**2 + WIDTH  # one projection


def right() -> int:
    """Head by head: three matrices with biases of its own; then one output matrix for all."""
    head_dim, total = WIDTH // HEADS, 0
    for _ in range(HEADS):
        for _ in ("query", "key", "value"):
            total += WIDTH * head_dim + head_dim
    return total + WIDTH * WIDTH + WIDTH


def matrices(count: float) -> str:
    """A count in matrices of 512 x 512, and what is left."""
    if count < 0 or not count.is_integer():
        return "A layer learns a whole number of numbers, 0 or more."
    whole, left = divmod(int(count), WIDTH**2)
    if not whole:
        return (
            f"This is less than one matrix of 512 x 512 holds, {WIDTH**2:,}; how many such "
            "matrices has the layer?"
        )
    return (
        f"This is as many as {whole} matrices of 512 x 512 hold, and {left:,} more. How many such "
        "matrices has the layer, and how many biases?"
    )


EXERCISE = Exercise(
    name="count_parameters",
    answer="parameters",
    judge=Number(right, rtol=1e-9),
    right=right(),
    explain=(predicted(matrices),),
    asks_for="number",
    ideas=[
        Mistake(
            "It is multiplied by the 16 heads; together the heads share one width of 512.",
            16 * 4 * ONE,
        ),
        Mistake(
            "This is a sixteenth: one head with its share of all. All 16 heads count, and each has "
            "its own rows of the matrices.",
            4 * ONE // 16,
        ),
        Mistake("The biases are forgotten: four more vectors of 512.", 4 * 512**2),
        Mistake("The output projection is forgotten.", 3 * ONE),
        Mistake("The output projection and the biases are forgotten.", 3 * 512**2),
        Mistake(
            "Every head gets a full-width projection; a head's matrices are only 32 numbers wide.",
            16 * 3 * ONE + ONE,
        ),
        Mistake(
            "The output projection works on all heads; here it is as wide as one head.",
            3 * ONE + 32 * 512 + 512,
        ),
        Mistake(
            "Only the output projection has its bias here; query, key and value have one each.",
            4 * 512**2 + 512,
        ),
        Mistake(
            "The bias of a head is 32 numbers; it was counted once, not for every head.",
            4 * 512**2 + 3 * 32 + 512,
        ),
        Mistake(
            "The biases are single numbers here; there is one for each number that comes out.",
            4 * 512**2 + 4,
        ),
        Mistake(
            "This is one head only; there are 16, and an output projection.", 3 * (512 * 32 + 32)
        ),
        Mistake(
            "The matrices are 32 by 32 here; each reads all 512 numbers of the input.",
            16 * 3 * (32 * 32 + 32) + ONE,
        ),
    ],
)
