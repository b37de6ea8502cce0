"""Exercise kernel_regression: attention with a Gaussian kernel, sixty years before the name."""

import math

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def spec(query, keys, values, bandwidth):
    """estimate(i) = sum_j w(i, j) value(j) / sum_j w(i, j), w = exp(-|q_i - k_j|^2 / (2 sigma^2))."""
    rows = []
    for q in query:
        exponents = [-sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) for k in keys]
        exponents = [x / (2 * bandwidth**2) for x in exponents]
        largest = max(exponents).detach()
        weights = [torch.exp(x - largest) for x in exponents]
        rows.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return torch.stack(rows)


def cases(seed: int) -> list[Case]:
    g = torch.Generator().manual_seed(seed)

    def points(*sizes):
        return tuple(torch.randn(s, generator=g) for s in sizes)

    # Far enough for exp(-x) to be 0 in any precision, so near that float32 still tells x from x + 0.0001.
    far = (16 + torch.randn(2, 3, generator=g), *points((5, 3), (5, 2)))
    (keys,) = points((4, 3))
    return [
        Case(
            "5 queries, 7 keys in 3 dimensions, 2 values each",
            (*points((5, 3), (7, 3), (7, 2)), 0.7),
        ),
        Case("a wide kernel", (*points((3, 2), (11, 2), (11, 5)), 2.5)),
        Case("queries far from every key", (*far, 0.5), gradients=False),
        Case(
            "1 query, 3 keys in 1 dimension, 1 value each", (*points((1, 1), (3, 1), (3, 1)), 0.7)
        ),
        Case("one key", (*points((4, 2), (1, 2), (1, 3)), 0.7)),
        Case("queries on keys", (keys[:2].clone(), keys, *points((4, 2)), 0.7), gradients=False),
    ]


ACCEPTED = Accepted()


def squared_distances(query, keys):
    return (query[:, None] - keys).square().sum(-1)


@ACCEPTED.add
def broadcast_and_softmax(query, keys, values, bandwidth):
    return torch.softmax(-squared_distances(query, keys) / (2 * bandwidth**2), dim=-1) @ values


@ACCEPTED.add
def expanded_square(query, keys, values, bandwidth):
    """|q|^2 is the same for every key, so the softmax ignores it."""
    q, k = query.double(), keys.double()
    scores = (q @ k.T - 0.5 * k.square().sum(-1)) / bandwidth**2
    return scores.softmax(-1).to(values.dtype) @ values


@ACCEPTED.add
def loop_over_queries(query, keys, values, bandwidth):
    rows = []
    for q in query:
        scores = -((keys - q) ** 2).sum(dim=1) / (2 * bandwidth * bandwidth)
        weights = torch.exp(scores - scores.max())
        rows.append((weights[:, None] * values).sum(0) / weights.sum())
    return torch.stack(rows)


@ACCEPTED.add
def norm_and_einsum(query, keys, values, bandwidth):
    z = torch.linalg.vector_norm((query[:, None, :] - keys[None, :, :]) / bandwidth, dim=-1)
    return torch.einsum("nm,me->ne", torch.softmax(-0.5 * z**2, dim=1), values)


@ACCEPTED.add
def log_space(query, keys, values, bandwidth):
    scores = -squared_distances(query, keys) / (2 * bandwidth**2)
    return torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True)) @ values


MISTAKES = Mistakes()


def smooth(scores, values, axis=-1):
    return torch.softmax(scores, dim=axis) @ values


@MISTAKES.add("The bandwidth is not squared.")
def bandwidth_not_squared(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys) / (2 * bandwidth), values)


@MISTAKES.add("The 2 in 2 sigma^2 is missing, so the kernel is too narrow.")
def two_missing(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys) / bandwidth**2, values)


@MISTAKES.add("The bandwidth is not used at all.")
def bandwidth_ignored(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys) / 2, values)


@MISTAKES.add("The scores are multiplied by 2 sigma^2 instead of divided.")
def multiplied(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys) * (2 * bandwidth**2), values)


@MISTAKES.add("The distance is not squared.")
def distance_not_squared(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys).sqrt() / (2 * bandwidth**2), values)


@MISTAKES.add("The minus sign is missing: far keys get the largest weight.")
def sign_missing(query, keys, values, bandwidth):
    return smooth(squared_distances(query, keys) / (2 * bandwidth**2), values)


@MISTAKES.add("The weights are normalised over the queries instead of over the keys.")
def over_queries(query, keys, values, bandwidth):
    return smooth(-squared_distances(query, keys) / (2 * bandwidth**2), values, axis=0)


@MISTAKES.add("The weights are not divided by their sum.")
def not_normalised(query, keys, values, bandwidth):
    return torch.exp(-squared_distances(query, keys) / (2 * bandwidth**2)) @ values


@MISTAKES.add(
    "Far from every key all weights round to 0 and 0 / 0 is NaN; use a softmax over the exponents."
)
def underflow(query, keys, values, bandwidth):
    weights = torch.exp(-squared_distances(query, keys) / (2 * bandwidth**2))
    return weights / weights.sum(-1, keepdim=True) @ values


@MISTAKES.add(
    "A small number is added to the sum of the weights: far from every key the answer becomes 0."
)
def epsilon(query, keys, values, bandwidth):
    weights = torch.exp(-squared_distances(query, keys) / (2 * bandwidth**2))
    return weights / (weights.sum(-1, keepdim=True) + 1e-8) @ values


@MISTAKES.add("The squared differences are averaged over the dimensions instead of added.")
def mean_over_dimensions(query, keys, values, bandwidth):
    return smooth(-(query[:, None] - keys).square().mean(-1) / (2 * bandwidth**2), values)


@MISTAKES.add("The scores are dot products, not distances; here the keys have different lengths.")
def dot_product(query, keys, values, bandwidth):
    return smooth(query @ keys.T / bandwidth**2, values)


@MISTAKES.add(
    "The scores are divided by sqrt(dimensions) as well; the bandwidth is the only scale here."
)
def scaled_twice(query, keys, values, bandwidth):
    scores = -squared_distances(query, keys) / (2 * bandwidth**2)
    return smooth(scores / math.sqrt(query.size(-1)), values)


@MISTAKES.add("Only the nearest key answers; every key must, in proportion to its weight.")
def nearest_neighbour(query, keys, values, bandwidth):
    return values[squared_distances(query, keys).argmin(-1)]


@MISTAKES.add("The weights are returned; mix the values with them.")
def weights_only(query, keys, values, bandwidth):
    return torch.softmax(-squared_distances(query, keys) / (2 * bandwidth**2), dim=-1)


@MISTAKES.add("No gradient reaches the inputs; the weights are detached or made inside no_grad.")
def detached(query, keys, values, bandwidth):
    scores = -squared_distances(query, keys) / (2 * bandwidth**2)
    return torch.softmax(scores, dim=-1).detach() @ values


EXERCISE = Exercise(
    name="kernel_regression",
    answer="kernel_regression",
    title="Kernel regression",
    kind="Implement",
    points=3,
    difficulty=2,
    minutes=15,
    needs="section 'Kernel regression' of chapter 1",
    judge=Calls(spec, cases),
    hints=(
        "Three steps: squared distances (n, m), weights (n, m) that sum to 1 in each row, mix.",
        "query[:, None] - keys has shape (n, m, d). Square it and sum over the last axis.",
        "The weights are torch.softmax(-squared / (2 * bandwidth**2), dim=-1). A softmax subtracts the "
        "largest exponent first, so it survives queries that are far from every key.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
