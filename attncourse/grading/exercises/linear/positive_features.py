"""Exercise positive_features: what a mean is worth whose weights may be below 0."""

import math

import numpy as np
import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

QUERY, KEYS, VALUES = (1.0, -1.0), ((3.0, 1.0), (1.0, 2.0), (2.0, 4.0)), (10.0, 20.0, 30.0)


def outcomes() -> tuple[float, ...]:
    """Total, weight of key 0 and output with features that change nothing; where there is none; output with relu."""
    query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in (QUERY, KEYS, VALUES))
    products = keys @ query
    weights = products / products.sum()
    there = (
        products.sum() - products[2]
    )  # what the third key must take away, with 4 as its second number
    none = (-there - query[1] * keys[2, 1]) / query[0]
    positive = keys.relu() @ query.relu()
    return tuple(
        map(float, (products.sum(), weights[0], weights @ values, none, positive @ values / positive.sum()))
    )  # fmt: skip


RIGHT = outcomes()  # -1, -2, 60, 3, 18.33
ACCEPTED = Accepted(
    a_tuple=(-1, -2, 60, 3, 110 / 6),
    a_list_of_floats=[-1.0, -2.0, 60.0, 3.0, 18.3333],
    a_tensor=torch.tensor([-1.0, -2.0, 60.0, 3.0, 18.333334]),
    numpy=np.array([-1, -2, (20 - 20 - 60) / -1, 3, 55 / 3]),
    rounded=(-1, -2, 60, 3, 18.33),
)

SLIPS = (  # what is said of wrong values, for each of the five numbers
    ("total", (
        ("This is the sum without its sign, or what the weights add up to once they are divided; two of the products are below 0.", (1.0,)),
        ("Absolute values of the products are added up; their signs count.", (5.0,)),
        ("Only the products above 0 are added up.", (2.0,)),
        ("The second number of the query is taken as 1; it is -1, and subtracts.", (13.0,)),
        ("The products are divided by sqrt(2); there is no such scale here.", (-1 / math.sqrt(2), -0.707)),
        ("These are the features of the keys alone, added up; each is multiplied by the query.", (6.0, 7.0)),
    )),
    ("weight of key 0", (
        ("This is the product, not yet divided by the total of -1: the sign turns.", (2.0,)),
        ("The softmax of the products is taken; here they are divided by their sum.", (0.936, 0.9362395)),
        ("The products are divided by the sum of their absolute values; by their sum.", (0.4, -0.4)),
        ("Products below 0 are left out; in this feature map they count.", (1.0,)),
        ("Equal weights are taken; weights are products over their sum.", (1 / 3,)),
        ("This is the weight of key 1.", (-1.0,)),
        ("A weight that is below 0 is set to 0; nothing does that here.", (0.0,)),
        ("This is 1 over the total.", (-0.5,)),
    )),
    ("output without features", (
        ("The sum of the values times the products is not divided by the total: -60 / -1.", (-60.0,)),
        ("The output is held within the values; nothing holds it there when weights may be below 0.", (10.0, 20.0, 30.0)),
        ("Products below 0 are left out, so that key 0 is read alone.", (10.0,)),
        ("Equal weights give this, and so do absolute values of the products; the weights are the products, with their signs, over their sum.", (20.0,)),
        ("The softmax of the products is taken; here they are divided by their sum.", (10.8, 10.795)),
        ("The signs of the products are lost in the sum of the values.", (100.0, -100.0)),
        ("Divided by the number of keys; divide by the total.", (-20.0,)),
        ("The total is -1, and not 0: there is an output here.", (0.0,)),
        ("The weight of one of the keys below 0 is taken as above 0, or the other way round.", (-20.0, 100.0)),
    )),
    ("first number of key 2", (
        ("This is the first number as it is; with it the total is -1. By how much must it grow?", (2.0,)),
        ("The change is given; the question is what the number must be.", (1.0,)),
        ("The number goes the other way: a smaller one makes the total smaller still.", (1.0,)),
        ("With this number the product of key 2 is 0; the total must be.", (4.0,)),
        ("The other two keys are forgotten, whose products add up to 1.", (4.0,)),
        ("The sign of the other products is turned.", (5.0,)),
        ("This is the product that key 2 should have; its first number is that and 4.", (-1.0,)),
        ("Key 2 as the second number counts is forgotten: it takes 4 away.", (-1.0, 0.0)),
    )),
    ("output with relu", (
        ("The query does not go through relu: its second feature is 0, and not -1.", (60.0, 20.0)),
        ("Relu is taken of the products; it is taken of query and keys, and then they are multiplied.", (10.0,)),
        ("The absolute value of the query is taken; relu makes 0 of what is below 0.", (270 / 13, 280 / 13)),
        ("The sum is not divided by the total of 6.", (110.0,)),
        ("Divided by the number of keys; divide by the total of 6.", (110 / 3,)),
        ("The plain mean of the values; the weights are 3, 1 and 2 over 6.", (20.0,)),
        ("The features are elu(x) + 1; here they are relu(x).", (19.57, 19.59, 19.6)),
        ("A softmax is taken of 3, 1 and 2; divide them by their sum.", (15.797, 15.8)),
    )),
)  # fmt: skip


class Each(Number):
    """`Number` for several, which knows the slips of each, however many are made at once."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.shape != (len(SLIPS),):
            return ""
        told = (_slip(k, x) for k, x in enumerate(found.value.tolist()) if not _near(x, RIGHT[k]))
        return " ".join(told)


def _near(a: float, b: float, most: float = 1e-3) -> bool:
    return math.isfinite(a) and abs(a - b) <= most * max(abs(b), 0.1)


def _slip(k: int, number: float) -> str:
    where = f"Number {k + 1} ({SLIPS[k][0]}):"
    if known := [says for says, wrong in SLIPS[k][1] if any(_near(number, w, 2e-3) for w in wrong)]:
        return f"{where} {known[0][0].lower()}{known[0][1:]}"
    if not math.isfinite(number):
        return f"{where} this is no finite number; every one of the five is one."
    if _near(number, -RIGHT[k], 2e-3):
        return f"{where} the sign is turned."
    if _near(number, RIGHT[k], 0.02):
        return f"{where} this is close; give four digits, or let Python divide."
    return f"{where} this is {'too small' if number < RIGHT[k] else 'too large'}."


def instead(k: int, wrong: float) -> list[float]:
    """The right numbers with one wrong."""
    return [*RIGHT[:k], wrong, *RIGHT[k + 1 :]]


def _known():
    seen = set()
    for k, (_, slips) in enumerate(SLIPS):
        for says, wrong in slips:
            if (k, wrong[0]) not in seen:
                seen.add((k, wrong[0]))
                yield Mistake(
                    f"Number {k + 1} ({SLIPS[k][0]}): {says[0].lower()}{says[1:]}",
                    instead(k, wrong[0]),
                )


MISTAKES = Mistakes(_known())
MISTAKES += [Mistake(says, numbers) for says, numbers in (
    ("The order is turned around; the total comes first.", RIGHT[::-1]),
    ("All as if a softmax were there; the products are divided by their sum.", [1.0, 0.936, 10.8, 3.0, 15.8]),
    ("The signs of the first two numbers are lost; products may be below 0, and so may their sum.", [1.0, 2.0, 60.0, 3.0, RIGHT[4]]),
    ("The number with relu is missing; give five numbers.", RIGHT[:4]),
    ("Only the total is given; give five numbers.", RIGHT[0]),
    ("The total is missing; give five numbers.", RIGHT[1:]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="positive_features",
    answer="outcomes",
    judge=Each(outcomes, rtol=1e-3),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
