"""Exercise bottom_right_mask: who may read whom behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.explain.kinds import kinds


def definition(n, past):
    """The mask of the course: query i stands at position past + i."""
    return spec.causal(n, past + n, offset=past)


def cases(seed: int) -> list[Case]:
    """More past than new, less, equally much; no past; a single query."""
    sizes = (3, 4), (5, 2), (3, 3), (4, 0), (1, 6), (1, 1), (1, 0), (2, 1), (40, 130), (3, 2100)
    sizes = (*sizes, (2 + seed % 5, 11))
    return [Case(f"{n} new queries, {p} cached", (n, p), gradients=False) for n, p in sizes]


@Dataflow
def right(n, past):
    places = yield "the positions of the queries", past + torch.arange(n)
    return torch.arange(past + n) <= places[:, None]


def pairs(expected, seen, n, past):
    """What wrong pairs are to each other."""
    query, key = torch.arange(past, past + n)[:, None], torch.arange(past + n)
    yield "a query reads tokens that come after it", key > query
    yield "a query does not read itself", key == query
    yield "a query does not read all cached tokens", (key < past) & (key < query)
    yield "a query does not read all new tokens before itself", (key >= past) & (key < query)


EXERCISE = Exercise(
    name="bottom_right_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("n m",),
    explain=(kinds(pairs),),
)
