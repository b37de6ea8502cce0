"""Exercise score_std: how large is a typical dot product?"""

from fractions import Fraction

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Exercise, Mistake
from attncourse.grading.exercises.dot_product._told import Told

D, QUERY_STD, KEY_STD = 64, 1.0, 0.5


def standard_deviation() -> float:
    """Independent zero-mean products: their variances add up."""
    return sum(QUERY_STD**2 * KEY_STD**2 for _ in range(D)) ** 0.5


def about(x: float, rtol: float = 1e-3) -> Close:
    """A wrong number, also when it is rounded."""
    return Close(torch.tensor(x, dtype=torch.float64), rtol)


def variance_of_each(std: float) -> str:
    """What a standard deviation would mean for the 64 products."""
    if std < 0:
        return "A standard deviation is never negative."
    return (
        f"A standard deviation of {std:g} is a variance of {std**2:g}, which is {std**2 / D:g} for each of the "
        f"{D} products. What is the variance of one product?"
    )


ACCEPTED = {
    "int": 4,
    "float": 4.0,
    "fraction": Fraction(8, 2),
    "numpy": np.float64(64 * 0.25) ** 0.5,
    "tensor": torch.tensor(64.0).sqrt() * 0.5,
}

MISTAKES = [Mistake(says, number) for says, number in (
    ("That is the variance; the standard deviation is its square root.", 16),
    ("That is sqrt(64): the keys' standard deviation of 0.5 is not in it.", 8),
    ("That is the number of dimensions.", 64),
    ("That grows with d itself; variances add, standard deviations do not.", 32),
    ("That uses the keys' standard deviation twice: 0.5 is a standard deviation, not a variance.", 2),
    ("The variance of the keys is 0.5 squared, 0.25, not 0.5.", about(32**0.5)),
    ("That looks measured, and a measurement scatters; give the exact value.", about(4.001, rtol=0.03)),
    ("That is the score after the division by sqrt(64); the question is about the one before.", 0.5),
    ("That adds the variances of query and key; the product of two has the product of variances.", about(80**0.5)),
    ("That is 64 times the sum of the variances of query and key; multiply the two, and take the root.", 80),
    ("That adds the standard deviations of query and key; the variances of factors are multiplied.", 12),
    ("That is the mean; the dot products scatter around it.", 0),
    ("That is the variance of one product; a dot product adds up 64.", 0.25),
    ("That is the standard deviation of one query component; a dot product adds up 64 products.", 1),
    ("That is the standard deviation of the mean of 64 products; a dot product is their sum.", 0.0625),
    ("The sign is wrong: a standard deviation is never negative.", -4),
)]  # fmt: skip

EXERCISE = Exercise(
    name="score_std",
    answer="standard_deviation",
    judge=Told(standard_deviation, tells=variance_of_each),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
