"""Exercise positive_features: what a mean is worth whose weights may be below 0."""

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import each_predicted

QUERY, KEYS, VALUES = (1.0, -1.0), ((3.0, 1.0), (1.0, 2.0), (2.0, 4.0)), (10.0, 20.0, 30.0)


def right() -> tuple[float, ...]:
    """Total, weight of key 0 and output without features; where there is none; output with relu."""
    query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in (QUERY, KEYS, VALUES))
    products, positive = keys @ query, keys.relu() @ query.relu()
    total, first = products.sum(), products[:2].sum()
    zero = (-first - query[1] * keys[2, 1]) / query[0]  # with its 4, key 2 takes the others away
    outputs = products @ values / total, positive @ values / positive.sum()
    return tuple(map(float, (total, products[0] / total, outputs[0], zero, outputs[1])))


ASKED = (  # in a few words, the thought that leads there, and wrong numbers that people write
    ("total", "The products of query and keys are added up with their signs.",
     {1: "the sum without its sign", 5: "the sum of absolute values",
      2: "the sum of the products above 0 only"}),
    ("weight of key 0", "A weight is the product of its key, divided by the sum of all products.",
     {2: "the product, not yet divided", 0.936: "the weight of a softmax", 1 / 3: "an equal weight",
      -0.4: "the product divided by a sum of absolute values"}),
    ("output without features", "Each value counts with its weight, and weights may be below 0.",
     {-60: "the sum, not yet divided by the total", 20: "the plain mean of the values",
      10: "the value of key 0 alone", 10.795: "the output of a softmax"}),
    ("first number of key 2",
     "The product of key 2 must take away those of the other two keys.",
     {2: "the number as it is: the total is then -1", 4: "the one that makes its product zero",
      -1: "the product that key 2 needs"}),
    ("output with relu", "Relu is taken of query and keys; products are divided by their sum.",
     {60: "the output of a query that did not go through relu", 20: "the plain mean of the values",
      110: "the sum, not yet divided", 19.59: "the output with elu(x) + 1"}),
)  # fmt: skip
RIGHT = right()  # -1, -2, 60, 3, 18.33


def told(place: int, number: float) -> str:
    """What a wrong number is, if people write it, and what leads to the right one."""
    _, thought, others = ASKED[place]
    known = (says for x, says in others.items() if abs(x - number) < 5e-3 * abs(x))
    size = "small" if number < RIGHT[place] else "large"
    return f"this is {next(known, f'too {size}')}. {thought}"


EXERCISE = Exercise(
    name="positive_features",
    answer="outcomes",
    judge=Number(right, rtol=1e-3),
    right=RIGHT,
    asks_for="number",
    explain=(each_predicted([name for name, *_ in ASKED], told),),
)
