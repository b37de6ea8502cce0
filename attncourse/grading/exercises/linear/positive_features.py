"""Exercise positive_features: what a mean is worth whose weights may be below 0."""

from operator import mul

import torch

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

QUERY, KEYS, VALUES = (1.0, -1.0), ((3.0, 1.0), (1.0, 2.0), (2.0, 4.0)), (10.0, 20.0, 30.0)


def right(query=QUERY, keys=KEYS, values=VALUES) -> tuple[float, ...]:
    """Total, weight of key 0 and output without features; where there is none; output with relu."""
    query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in (query, keys, values))
    products, positive = keys @ query, keys.relu() @ query.relu()
    total, first = products.sum(), products[:2].sum()
    zero = (-first - query[1] * keys[2, 1]) / query[0]  # with its 4, key 2 takes the others away
    outputs = products @ values / total, positive @ values / positive.sum()
    return tuple(map(float, (total, products[0] / total, outputs[0], zero, outputs[1])))


RIGHT = right()  # -1, -2, 60, 3, 18.33
READ = {  # in another way, all five numbers follow
    "reading the table row by row, as the keys (3, 1), (2, 1) and (2, 4)": right(
        keys=((3.0, 1.0), (2.0, 1.0), (2.0, 4.0))
    ),
    "leaving out the minus of the query": right(query=(1.0, 1.0)),
    "turning the sign of the query": right(query=(-1.0, 1.0)),
}
SOFTMAX = torch.tensor([2.0, -1.0, -2.0], dtype=torch.float64).softmax(0).tolist()
ASKED = (  # in a few words, the thought that leads there, and what people do instead
    ("total", "The products of query and keys are added up with their signs.",
     {"adding absolute values": 5, "adding only what is above 0": 2}),
    ("weight of key 0", "A weight is the product of its key, divided by the sum of all products.",
     {"leaving out the division by the sum": 2, "taking a softmax": SOFTMAX[0],
      "giving all keys one weight": 1 / 3, "dividing by the sum of absolute values": 0.4}),
    ("output without features", "Each value counts with its weight, and weights may be below 0.",
     {"leaving out the division by the sum": -60, "taking the plain mean of the values": 20,
      "taking the value of key 0 alone": 10, "taking a softmax": sum(map(mul, SOFTMAX, VALUES)),
      "dividing by the sum of absolute values": -12}),
    ("first number of key 2",
     "The product of key 2 must take away those of the other two keys.",
     {"leaving it as it is, where the sum is -1": 2, "making the product of key 2 zero": 4,
      "giving the product that key 2 needs": -1}),
    ("output with relu", "Relu is taken of query and keys; products are divided by their sum.",
     {"leaving the query without relu": 60, "taking the plain mean of the values": 20,
      "leaving out the division by the sum": 110, "dividing by the sum without relu": -110,
      "taking relu of the products": 10, "taking elu(x) + 1 for relu": 19.59}),
)  # fmt: skip


def thought(place: int, number: float) -> str:
    return ASKED[place][1]


EXERCISE = Exercise(
    name="positive_features",
    answer="outcomes",
    judge=Number(right, rtol=1e-3),
    right=RIGHT,
    asks_for="number",
    results=tuple(name for name, *_ in ASKED),
    explain=(predicted(thought, *(Made(others=x) for *_, x in ASKED), whole=READ),),
)
