"""Exercise differential_step: the second head of a pair is subtracted from the first."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded


def definition(query, key, value, lam, visible):
    """The loops of the course: two maps a pair, one number at a time."""
    if 2 * value.size(1) != query.size(1):
        raise ValueError("each pair of query heads has its values")
    return spec.differential_attention(query, key, value, lam, visible)


CALLS = (  # special about the call, b pairs n m d e, lam, how loud, the share that is hidden
    ("2 samples, 3 pairs, 4 queries, 5 keys, values 7 wide", (2, 3, 4, 5, 6, 7), 0.8, 1, 0),
    ("lam = 0", (1, 2, 4, 3, 5, 6), 0.0, 1, 0),
    ("hidden keys, lam = -0.6", (3, 2, 5, 6, 4, 3), -0.6, 1, 0.4),
    ("large scores", (1, 3, 4, 6, 5, 2), 0.5, 2000, 0.2),
    ("4 pairs, lam = 1.3", (1, 4, 2, 5, 3, 4), 1.3, 1, 0),
    ("1 pair, 1 query, 2 keys", (2, 1, 1, 2, 4, 3), 0.6, 1, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), lam, loud, share in CALLS:
        query, key, value = normal(g, (b, 2 * h, n, d), (b, 2 * h, m, d), (b, h, m, e))
        visible = torch.rand(n, m, generator=g) >= share
        visible[:, int(torch.randint(m, (), generator=g))] = True
        if loud > 1:  # query 0 may read one key only, whose score is far below all others
            visible[0] = torch.arange(m) == 1
            query[:, :, 0] = -1e5 * key[:, :, 1]
        args = loud * query, key, value, torch.tensor(lam), visible
        found.append(Case(what, args, gradients=loud == 1))
    return found


@Dataflow
def right(query, key, value, lam, visible):
    products = yield "the products of queries and keys", query @ key.mT
    scores = yield "the scaled scores", products / math.sqrt(query.size(-1))
    hidden = yield "the scores behind the mask", scores.masked_fill(~visible, -math.inf)
    maps = yield "the maps of all heads", hidden.softmax(-1)
    first = yield "the maps of the first heads, 0, 2, 4 ...", maps[:, ::2]
    second = yield "the maps of the second heads, 1, 3, 5 ...", maps[:, 1::2]
    weights = yield "the differences first - lam * second", first - lam * second
    return weights @ value, weights


EXERCISE = Exercise(
    name="differential_step",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
)
