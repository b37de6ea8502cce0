"""Exercise score_std: how large is a typical dot product?"""

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import predicted

D, QUERY_STD, KEY_STD = 64, 1.0, 0.5


def right() -> float:
    """Independent zero-mean products: their variances add up."""
    return sum(QUERY_STD**2 * KEY_STD**2 for _ in range(D)) ** 0.5


def variance_of_each(std: float) -> str:
    """What a standard deviation would mean for the 64 products."""
    if std < 0:
        return "A standard deviation is never negative."
    if abs(std / right() - 1) < 0.03:
        return "This is near, as a measurement is, which scatters; give the exact value."
    return (
        f"A standard deviation of {std:g} is a variance of {std**2:g}, which is {std**2 / D:g} for "
        f"each of the {D} products. What is the variance of one product?"
    )


EXERCISE = Exercise(
    name="score_std",
    answer="standard_deviation",
    judge=Number(right),
    right=right(),
    explain=(predicted(variance_of_each),),
    asks_for="number",
    ideas=[
        Mistake("That is the score after the division by sqrt(64); the one before is asked.", 0.5),
    ],
)
