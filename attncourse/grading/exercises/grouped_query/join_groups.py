"""Exercise join_groups: the transpose that leaks the future, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Exercise, normal, seeded
from attncourse.grading.explain.places import moved


def definition(heads):
    """Query head h = g * (H / G) + r: count the heads through, then merge as in chapter 3."""
    one_by_one = [heads[:, g, r] for g in range(heads.size(1)) for r in range(heads.size(2))]
    return spec.merge_heads(torch.stack(one_by_one, dim=1))


SHAPES = (
    ("2 samples, 3 groups of 4 heads, 5 positions, head_dim 6", (2, 3, 4, 5, 6)),
    ("2 groups of 5 heads, 3 positions, head_dim 4", (1, 2, 5, 3, 4)),
    ("all axes 3", (3, 3, 3, 3, 3)),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    found = [Case(what, tuple(normal(g, shape))) for what, shape in SHAPES]
    (moved_in_memory,) = normal(g, (2, 4, 5, 3, 6))
    found.append(Case("another order in memory", (moved_in_memory.permute(0, 3, 1, 2, 4),)))
    large = 1e5 * found[0].args[0]  # float16 ends before
    return [*found, Case("numbers near 100,000", (large,), gradients=False)]


def right(heads):
    return heads.permute(0, 3, 1, 2, 4).flatten(2)


EXERCISE = Exercise(
    name="join_groups",
    judge=Calls(definition, cases),
    right=right,
    axes=("b t d",),
    explain=(moved("heads"),),
)
