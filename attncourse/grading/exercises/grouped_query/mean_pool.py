"""Exercise mean_pool: one projection of a multi-head checkpoint, made narrower."""

import torch

from attncourse.grading.exercise import Calls, Case, Exercise
from attncourse.grading.explain.rows import sums_of_rows
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistake import Mistake


def definition(x, num_heads, num_kv_heads):
    """Row by row: new head g is the mean of the old heads of its group."""
    head_dim, group = x.size(0) // num_heads, num_heads // num_kv_heads
    return torch.stack([
        sum(x[h * head_dim + i] for h in range(g * group, (g + 1) * group)) / group
        for g in range(num_kv_heads) for i in range(head_dim)
    ])  # fmt: skip


CALLS = (  # what is special, shape of the parameter, num_heads, num_kv_heads
    ("a matrix (30, 7), 6 heads to 2", (30, 7), 6, 2),
    ("a bias (30), 6 heads to 2", (30,), 6, 2),
    ("a matrix (24, 5), 8 heads to 2", (24, 5), 8, 2),
    ("a matrix (12, 12), 4 heads to 2", (12, 12), 4, 2),
    ("12 heads to 3", (24, 10), 12, 3),
    ("6 heads to 6: nothing changes", (12, 4), 6, 6),
    ("6 heads to 1", (12, 4), 6, 1),
    ("a bias (12), 4 heads to 1", (12,), 4, 1),
    ("head_dim 1", (6, 5), 6, 3),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (*normal(g, shape), *heads)) for what, shape, *heads in CALLS]


def grouped(x, num_heads, num_kv_heads):
    """(num_kv_heads, heads of a group, head_dim, ...)."""
    return x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1))


def right(x, num_heads, num_kv_heads):
    return grouped(x, num_heads, num_kv_heads).mean(1).flatten(0, 1)


def of_columns(x, num_heads, num_kv_heads):
    return right(x.mT, num_heads, num_kv_heads).mT


EXERCISE = Exercise(
    name="mean_pool",
    judge=Calls(definition, cases),
    right=right,
    axes=("r",),
    explain=(sums_of_rows("x"),),
    measures=("gradients",),
    ideas=[
        Mistake(
            "The heads of a group are added up, not averaged.",
            lambda x, h, g: right(x, h, g) * (h // g),
        ),
        Mistake(
            "The largest number of the group is kept; average all of them.",
            lambda x, h, g: grouped(x, h, g).amax(1).flatten(0, 1),
        ),
        Mistake(
            "The groups are strided: heads 0, G, 2 G ... are averaged; neighbours share a group.",
            lambda x, h, g: x.unflatten(0, (h // g, g, -1)).mean(0).flatten(0, 1),
        ),
        Mistake(
            "num_kv_heads is taken as the size of a group; it is the number of groups.",
            lambda x, h, g: right(x, h, h // g),
        ),
        Mistake(
            "Neighbouring rows are averaged; the same row of different heads belongs together.",
            lambda x, h, g: x.unflatten(0, (-1, h // g)).mean(1),
        ),
        Mistake(
            "The mean is repeated for every head of the group; return it once.",
            lambda x, h, g: grouped(x, h, g).mean(1).repeat_interleave(h // g, 0).flatten(0, 1),
        ),
        Mistake("The columns of the matrix are cut into heads; heads are rows.", of_columns),
    ],
)
