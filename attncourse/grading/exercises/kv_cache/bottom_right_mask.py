"""Exercise bottom_right_mask: who may read whom behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.dataflow import dataflow, value
from attncourse.grading.exercise import Calls, Case, Exercise
from attncourse.grading.explain.kinds import kinds
from attncourse.grading.mistake import Mistake


def definition(n, past):
    """The mask of the course: query i stands at position past + i."""
    return spec.causal(n, past + n, offset=past)


def cases(seed: int) -> list[Case]:
    """More past than new, less, equally much; no past; a single query."""
    sizes = (
        (3, 4),
        (5, 2),
        (3, 3),
        (4, 0),
        (1, 6),
        (1, 1),
        (1, 0),
        (2, 1),
        (2 + seed % 5, 11),
        (40, 130),
    )
    return [Case(f"{n} new queries, {p} cached", (n, p), gradients=False) for n, p in sizes]


PLACES, MASK = "the positions of the queries", "the rows of the mask"


@dataflow()
def right(n, past):
    places = yield value(f"{PLACES}: n", past + torch.arange(n))
    return (yield value(f"{MASK}: n m", torch.arange(past + n) <= places[:, None]))


def pairs(expected, seen, n, past):
    """What wrong pairs are to each other."""
    query, key = torch.arange(past, past + n)[:, None], torch.arange(past + n)
    yield "a query reads tokens that come after it", key > query
    yield "a query does not read itself", key == query
    yield "a query does not read all cached tokens", (key < past) & (key < query)
    yield "a query does not read all new tokens before itself", (key >= past) & (key < query)


def rule(says, of):
    """The mistake of another rule (number of the query, of the key, number of queries, past)."""
    return Mistake(says, lambda n, p: of(torch.arange(n)[:, None], torch.arange(p + n), n, p))


EXERCISE = Exercise(
    name="bottom_right_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("n m",),
    explain=(kinds(pairs),),
    ideas=[
        rule("The mask is aligned to the first key, as is_causal=True does it; new queries stand "
             "behind the cached tokens.", lambda i, j, n, p: j <= i),
        rule("There is no causal mask: a query reads later keys.",
             lambda i, j, n, p: j <= i + n + p),
        rule("The triangle is shifted by n; shift it by the number of cached tokens.",
             lambda i, j, n, p: j <= i + n),
        rule("The triangle is shifted to the wrong side: j <= i + past.",
             lambda i, j, n, p: j <= i - p),
        rule("There is a mask only when nothing is cached; a chunk behind a cache needs one, too.",
             lambda i, j, n, p: (j <= i) | (p > 0)),
        rule("Of the new tokens a query reads itself only; it also reads those before itself.",
             lambda i, j, n, p: (j < p) | (j == i + p)),
        rule("A query reads only the past + 1 tokens up to itself; it reads all from key 0 on.",
             lambda i, j, n, p: (j <= i + p) & (j >= i)),
        rule("The new tokens stand before the cached ones here; the cached ones come first.",
             lambda i, j, n, p: (j <= i) | (j >= n)),
        right.but("Rows and columns are both reversed; row 0 is the first new query, column 0 the "
                  "first key.", MASK, lambda mask: mask.flip(0, 1)),
    ],
)  # fmt: skip
