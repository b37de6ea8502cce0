"""Exercise positive_features: what a mean is worth whose weights may be below 0."""

import torch

from attncourse.grading.exercise import Exercise, Mistake, Number
from attncourse.grading.explain.counts import each_predicted

QUERY, KEYS, VALUES = (1.0, -1.0), ((3.0, 1.0), (1.0, 2.0), (2.0, 4.0)), (10.0, 20.0, 30.0)


def right() -> tuple[float, ...]:
    """Total, weight of key 0 and output without features; where there is none; output with relu."""
    query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in (QUERY, KEYS, VALUES))
    products = keys @ query
    weights = products / products.sum()
    others = products.sum() - products[2]  # the third key must take them away, with its 4
    first = (-others - query[1] * keys[2, 1]) / query[0]
    positive = keys.relu() @ query.relu()
    outputs = weights @ values, positive @ values / positive.sum()
    return tuple(map(float, (products.sum(), weights[0], outputs[0], first, outputs[1])))


ASKED = (  # in a few words, and the thought that leads to the number
    ("total", "The products of query and keys are added up with their signs."),
    ("weight of key 0", "A weight is the product of its key, divided by the sum of all products."),
    ("output without features", "Each value counts with its weight, and weights may be below 0."),
    ("first number of key 2", "The product of key 2 must take away those of the other two keys."),
    ("output with relu", "Relu is taken of query and keys; products are divided by their sum."),
)
OTHERS = (  # what a wrong number is, where people write it
    {1: "the sum without its sign", 5: "the sum of absolute values",
     2: "the sum of the products above 0 only"},
    {2: "the product, not yet divided", 0.936: "the weight of a softmax",
     -0.4: "the product divided by a sum of absolute values", 1 / 3: "an equal weight"},
    {-60: "the sum, not yet divided by the total", 20: "the plain mean of the values",
     10: "the value of key 0 alone", 10.795: "the output of a softmax"},
    {2: "the number as it is: the total is then -1", 4: "the one that makes its product zero",
     1: "the change, or the other way round", -1: "the product that key 2 needs"},
    {60: "the output of a query that did not go through relu", 20: "the plain mean of the values",
     110: "the sum, not yet divided", 19.59: "the output with elu(x) + 1"},
)  # fmt: skip


def told(place: int, number: float) -> str:
    """What a wrong number is, if people write it, and what leads to the right one."""
    known = (says for x, says in OTHERS[place].items() if abs(x - number) < 5e-3 * abs(x))
    size = "small" if number < right()[place] else "large"
    return f"this is {next(known, f'too {size}')}. {ASKED[place][1]}"


RIGHT = right()  # -1, -2, 60, 3, 18.33
EXERCISE = Exercise(
    name="positive_features",
    answer="outcomes",
    judge=Number(right, rtol=1e-3),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted([name for name, _ in ASKED], told),),
    ideas=[Mistake("The order is turned around; the total comes first.", RIGHT[::-1])],
)
