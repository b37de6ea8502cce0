"""Exercise count_parameters: how many numbers does a layer with 16 heads learn?"""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

WIDTH, HEADS = 512, 16


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


MADE = Made({"the 16 heads": HEADS}, {
    "all biases": 4 * WIDTH, "the biases of one projection": WIDTH,
    "the weights of one projection": WIDTH**2, "one whole projection": WIDTH**2 + WIDTH,
})  # fmt: skip
EXERCISE = Exercise(
    name="count_parameters",
    answer="parameters",
    judge=Number(right, rtol=1e-9),
    right=right(),
    explain=(predicted(matrices, MADE),),
    asks_for="number",
)
