"""Exercise merge_heads: the reshape that forgets the transpose, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Exercise, Mistake, seeded
from attncourse.grading.explain.places import moved

CALLS = (  # what is special, shape in memory, its axes in order
    ("2 samples, 3 heads, 5 positions, head_dim 7", (2, 3, 5, 7), (0, 1, 2, 3)),
    ("heads that were split by a transpose", (2, 5, 3, 4), (0, 2, 1, 3)),
    ("more heads than positions, head_dim 1", (2, 5, 3, 1), (0, 1, 2, 3)),
    ("as many heads as positions", (2, 3, 3, 4), (0, 1, 2, 3)),
    ("the last two axes transposed", (2, 3, 4, 5), (0, 1, 3, 2)),
    ("another order in memory", (2, 4, 3, 5), (0, 2, 3, 1)),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (torch.randn(x, generator=g).permute(axes),)) for what, x, axes in CALLS]


def definition(heads):
    """`spec.merge_heads`, whose argument is called as in the notebook."""
    return spec.merge_heads(heads)


def right(heads):
    return heads.transpose(1, 2).flatten(2)


EXERCISE = Exercise(
    name="merge_heads",
    judge=Calls(definition, cases),
    right=right,
    axes=("b t d",),
    explain=(moved("heads"),),
    ideas=[
        Mistake(
            "This is the code as found: it reads the memory row by row, heads before positions.",
            lambda x: x.reshape(x.size(0), x.size(2), -1),
        )
    ],
)
