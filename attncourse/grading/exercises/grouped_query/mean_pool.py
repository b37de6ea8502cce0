"""Exercise mean_pool: one projection of a multi-head checkpoint, made narrower."""

import torch

from attncourse.grading.exercise import Calls, Case, Exercise, normal, seeded
from attncourse.grading.explain.mixtures import sums_of_rows


def definition(x, num_heads, num_kv_heads):
    """Row by row: new head g is the mean of the old heads of its group."""
    (head_dim, cut), (group, odd) = divmod(x.size(0), num_heads), divmod(num_heads, num_kv_heads)
    if cut or odd:
        raise ValueError("heads and groups must be whole")
    return torch.stack([
        sum(x[h * head_dim + i] for h in range(g * group, (g + 1) * group)) / group
        for g in range(num_kv_heads) for i in range(head_dim)
    ])  # fmt: skip


CALLS = (  # what is special, shape of the parameter, num_heads, num_kv_heads
    ("a matrix (30, 7), 6 heads to 2", (30, 7), 6, 2),
    ("a bias (30), 6 heads to 2", (30,), 6, 2),
    ("12 heads to 3", (24, 10), 12, 3),
    ("6 heads to 6: nothing changes", (12, 4), 6, 6),
    ("6 heads to 1", (12, 4), 6, 1),
    ("head_dim 1", (6, 5), 6, 3),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (*normal(g, shape), *heads)) for what, shape, *heads in CALLS]


def right(x, num_heads, num_kv_heads):
    groups = x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1))
    return groups.mean(1).flatten(0, 1)


EXERCISE = Exercise(
    name="mean_pool",
    judge=Calls(definition, cases),
    right=right,
    axes=("r",),
    explain=(sums_of_rows("x"),),
)
