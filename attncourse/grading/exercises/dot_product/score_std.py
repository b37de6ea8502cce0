"""Exercise score_std: how large is a typical dot product?"""

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

D, QUERY_STD, KEY_STD = 64, 1.0, 0.5


def right() -> float:
    """Independent zero-mean products: their variances add up."""
    return sum(QUERY_STD**2 * KEY_STD**2 for _ in range(D)) ** 0.5


def variance_of_each(std: float) -> str:
    """What a standard deviation would mean for the 64 products."""
    if std < 0:
        return "A standard deviation is never negative."
    return (
        f"A standard deviation of {std:g} is a variance of {std**2:g}, which is {std**2 / D:g} for "
        f"each of the {D} products. What is the variance of one product?"
    )


MADE = Made(factors={"the 0.5 of the keys": KEY_STD}, others={
    "dividing by sqrt(64), as attention does": right() / D**0.5,
    "leaving out the root": right() ** 2, "adding up standard deviations": D * KEY_STD,
    **{f"adding up {n} products, not {D}": n**0.5 * KEY_STD for n in (D - 1, D + 1)},
})  # fmt: skip
EXERCISE = Exercise(
    name="score_std",
    answer="standard_deviation",
    judge=Number(right),
    right=right(),
    explain=(predicted(variance_of_each, MADE),),
    asks_for="number",
)
