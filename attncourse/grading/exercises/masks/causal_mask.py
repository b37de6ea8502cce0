"""Exercise causal_mask: who may read whom when nobody may look ahead."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake


def cases(seed: int) -> list[Case]:
    """More keys than queries, fewer, equally many; the smallest sizes, and positions beyond 256."""
    sizes = [(5, 7), (7, 3), (4, 4), (1, 3), (2, 1), (2 + seed % 5, 11), (262, 260), (2, 300)]
    return [Case(f"{n} queries, {m} keys", (n, m), gradients=False) for n, m in sizes]


@Dataflow
def right(n, m):
    queries = yield "the numbers of the queries", torch.arange(n)[:, None]
    keys = yield "the numbers of the keys", torch.arange(m)
    return (yield "the visible pairs", keys <= queries)


EXERCISE = Exercise(
    name="causal_mask",
    judge=Calls(spec.causal, cases, gradients=False),
    right=right,
    axes=("n m",),
    ideas=[
        Mistake(
            "The mask is aligned to the last key; here query i reads keys 0 to i.",
            lambda n, m: torch.ones(n, m).tril(m - n) > 0,
        ),
    ],
)
