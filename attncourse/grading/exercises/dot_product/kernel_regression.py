"""Exercise kernel_regression: attention with a Gaussian kernel, sixty years before the name."""

from dataclasses import replace

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, sized_cases


def definition(query, keys, values, bandwidth):
    """estimate(i) = sum_j w(i, j) value(j) / sum_j w(i, j), w = exp(-|q - k|^2 / (2 sigma^2))."""
    rows = []
    for q in query:
        exponents = [-((q - k) ** 2).sum() / (2 * bandwidth**2) for k in keys]
        weights = spec.softmax(dict(enumerate(exponents)))
        rows.append(sum(w * values[j] for j, w in weights.items()))
    return torch.stack(rows)


def far(query, keys):
    """Two queries; the exponents of the second are about -3e7, below what people clamp at."""
    query[0] += 30.0
    query[1] += 4096.0 * torch.eye(3)[0]


def between_two(query, keys):
    query[:], keys[:, 0] = 40.0 * torch.eye(3)[0], -9.0
    keys[:2] = torch.tensor([[0.5, 1.0, 0.25], [0.5, -1.0, 0.25]])


CALLS = (  # what is special, n m d e, how far, bandwidth
    ("5 queries, 7 keys in 3 dimensions, 2 values each", (5, 7, 3, 2), 1, 0.7),
    ("some queries far from every key", (5, 7, 3, 2), far, 0.5),
    ("1 query far from every key, two of them equally near", (1, 4, 3, 2), between_two, 0.5),
    ("queries on keys", (2, 4, 3, 5), lambda q, k: q.copy_(k[:2]), 0.7),
    ("all far from 0", (5, 7, 3, 2), lambda q, k: (q.add_(400), k.add_(400)), 0.7),
    ("one key, all weights tiny", (4, 1, 2, 3), lambda q, k: q.copy_(k + 4.0), 0.7),
)


def cases(seed: int) -> list[Case]:
    made = sized_cases(seed, "n m d e", "n d, m d, m e", CALLS)
    return [replace(x, gradients=x.gradients or x.label == "queries on keys") for x in made]


@Dataflow
def right(query, keys, values, bandwidth):
    apart = yield "the differences of queries and keys", query[:, None] - keys
    squares = yield "the squared distances", apart.square().sum(-1)
    exponents = yield "the exponents", -squares / (2 * bandwidth**2)
    weights = yield "the weights", exponents.softmax(-1)
    return (yield "the weighted sums of the values", weights @ values)


def far_away(asked: Asked) -> str:
    """Near the keys all is right; far from every key, where all weights are tiny, it is not."""
    if not asked.shaped or not all("far" in x.label or "tiny" in x.label for x in asked.wrong):
        return ""
    if all("far from 0" in x.label for x in asked.wrong):
        return (
            "Only where queries and keys are all far from 0 are estimates wrong: their differences "
            "are lost in rounding, as by |q|^2 + |k|^2 - 2 q k. Subtract the places first."
        )
    return (
        "Near the keys the estimates are right, far from every key they are not: there the weights "
        "are tiny, and only how they compare counts, as in a softmax over the exponents."
    )


EXERCISE = Exercise(
    name="kernel_regression",
    judge=Calls(definition, cases),
    right=right,
    explain=(far_away,),
    axes=("n e",),
)
