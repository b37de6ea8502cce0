"""Exercise repair_p2c: keys meet the table of positions, and the index belongs to queries."""

from functools import partial

import torch

from attncourse.grading.exercise import Calls, Dataflow, Exercise
from attncourse.grading.exercises.disentangled.gather_c2p import cases, pair_by_pair
from attncourse.grading.explain.distances import met


def definition(key, pos_query, num_queries):
    return pair_by_pair(key, pos_query, num_queries, key.size(2), which=1)


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
