"""Exercise repair_p2c: keys meet the table of positions, and the index belongs to queries."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Dataflow, Exercise
from attncourse.grading.exercises.disentangled.gather_c2p import cases
from attncourse.grading.explain.distances import met


def definition(key, pos_query, num_queries):
    """One pair after the other."""
    (b, h, m, _), (span, odd) = key.shape, divmod(pos_query.size(1), 2)
    if odd:
        raise ValueError("the table has 2 * span rows")
    scores = [
        (key[:, :, j] * pos_query[:, spec.table_row(i - j, span)]).sum(-1)
        for i in range(num_queries)
        for j in range(m)
    ]
    return torch.stack(scores, -1).view(b, h, num_queries, m)


@Dataflow
def right(key, pos_query, num_queries):
    n, m, span = num_queries, key.size(2), pos_query.size(1) // 2
    distances = yield "the distances", torch.arange(n)[:, None] - torch.arange(m)
    shifted = yield "the distances plus span", distances + span
    rows = yield "the numbers of the rows", shifted.clamp(0, 2 * span - 1)
    products = yield "the products of keys and rows", key @ pos_query.mT
    return products.gather(-1, rows.mT.expand(*products.shape[:2], -1, -1)).mT


EXERCISE = Exercise(
    name="repair_p2c",
    answer="position_to_content",
    judge=Calls(definition, partial(cases, keys=True)),
    right=right,
    axes=("b h n m",),
    explain=(met("key"),),
)
