"""Exercise windowed_scores: the scores of a window as a narrow table, made without the wide one."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import (
    Calls, Case, Dataflow, Exercise, Mistake, normal, seeded, sized_cases,
)  # fmt: skip
from attncourse.grading.explain.probes import simpler
from attncourse.grading.memory_judge import Budget, MemoryLimited, grows_linearly


def definition(query, key, left, right):
    """Score by score."""
    n, d = query.shape[-2:]
    nothing = torch.full(query.shape[:2], -math.inf, dtype=query.dtype)
    columns = [
        (query[:, :, i] * key[:, :, j]).sum(-1) / math.sqrt(d) if 0 <= j < n else nothing
        for i in range(n)
        for j in range(i - left, i + right + 1)
    ]
    return torch.stack(columns, -1).unflatten(-1, (n, -1))


CALLS = (  # special about the call, b h n d, how loud, left, right
    ("2 samples, 3 heads, 7 tokens, head_dim 5, 3 to the left, 1 to the right",
     (2, 3, 7, 5), 1, 3, 1),
    ("a causal window of 4 tokens", (3, 2, 6, 4), 1, 3, 0),
    ("1 to the left, 4 to the right", (2, 1, 8, 3), 1, 1, 4),
    ("a window wider than the sequence", (1, 2, 3, 4), 1, 5, 6),
    ("only itself", (2, 3, 4, 6), 2, 0, 0),
    ("large scores", (2, 2, 9, 3), 900, 2, 2),
    ("256 tokens", (1, 1, 256, 2), 2, 5, 2),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    found = sized_cases(seed, "b h n d", "b h n d, b h n d", CALLS)
    found[1].args[1][:, :, 2] = 0.0  # a score of 0 is a score: this is no padding
    return found


def measured(n):
    """5 keys to the left, 2 to the right."""
    return *normal(seeded(7), (1, 1, n, 2), (1, 1, n, 2)), 5, 2


@Dataflow
def right(query, key, left, right):
    n, d = query.shape[-2:]
    first, columns = torch.arange(n)[:, None] - left, torch.arange(left + 1 + right)
    place = yield "the numbers of the keys of a row", first + columns
    keys = yield "the keys of each row", key[:, :, place.clamp(0, n - 1)]
    products = yield "the products", (query[:, :, :, None] * keys).sum(-1)
    scores = yield "the scaled scores", products / math.sqrt(d)
    return scores.masked_fill((place < 0) | (place >= n), -math.inf)


QUESTION = (  # which key stands in which column?
    "Let d be 1, all queries 1, the keys 1 to 5, left 2 and right 1",
    (torch.ones(1, 1, 5, 1), torch.arange(1.0, 6.0).view(1, 1, 5, 1), 2, 1),
)

EXERCISE = Exercise(
    name="windowed_scores",
    judge=MemoryLimited(
        Calls(definition, cases),
        "twice as many tokens take twice as much",
        partial(grows_linearly, measured, 128),
        # All pairs would be 1 GiB.
        Budget(lambda g: (*normal(g, *[(1, 1, 2**14, 1)] * 2), 3, 2), right),
        "Multiply each query with the keys of its window only, and join the parts once.",
    ),
    right=right,
    axes=("b h n c",),
    explain=(simpler(QUESTION),),
    ideas=[
        Mistake("The scores are not divided by sqrt(head_dim).",
                lambda query, *rest: right(query.size(-1) ** 0.5 * query, *rest)),
    ],
)  # fmt: skip
