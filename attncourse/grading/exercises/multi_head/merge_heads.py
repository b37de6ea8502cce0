"""Exercise merge_heads: the reshape that forgets the transpose, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Exercise
from attncourse.grading.explain.places import moved
from attncourse.grading.inputs import seeded
from attncourse.grading.mistake import Mistake

CALLS = (  # what is special, shape in memory, its axes in order
    ("2 samples, 3 heads, 5 positions, head_dim 7", (2, 3, 5, 7), (0, 1, 2, 3)),
    ("1 sample, 1 position, 4 heads, head_dim 2", (1, 4, 1, 2), (0, 1, 2, 3)),
    ("heads that were split by a transpose", (2, 5, 3, 4), (0, 2, 1, 3)),
    ("1 head", (2, 1, 3, 5), (0, 1, 2, 3)),
    ("more heads than positions, head_dim 1", (2, 5, 3, 1), (0, 1, 2, 3)),
    ("as many heads as positions", (2, 3, 3, 4), (0, 1, 2, 3)),
    ("the last two axes transposed", (2, 3, 4, 5), (0, 1, 3, 2)),
    ("another order in memory", (2, 4, 3, 5), (0, 2, 3, 1)),
    ("1 head of 1 number", (2, 1, 3, 1), (0, 1, 2, 3)),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (torch.randn(x, generator=g).permute(axes),)) for what, x, axes in CALLS]


def definition(heads):
    """`spec.merge_heads`, whose argument is called as in the notebook."""
    return spec.merge_heads(heads)


def right(heads):
    return heads.transpose(1, 2).flatten(2)


def read(heads, n):
    """The numbers in this order, cut after the positions."""
    return heads.reshape(len(heads), n, -1)


EXERCISE = Exercise(
    name="merge_heads",
    judge=Calls(definition, cases),
    right=right,
    axes=("b t d",),
    explain=(moved("heads"),),
    measures=("gradients",),
    ideas=[
        Mistake(
            "The heads still stand before the positions when the memory is read row by row, so "
            "positions mix: transpose first.",
            lambda x: read(x, x.size(2)),
        ),
        Mistake(
            "The wrong axes are exchanged: positions and head_dim instead of heads and positions.",
            lambda x: read(x.mT, x.size(2)),
        ),
        Mistake(
            "The positions stand last before the reshape, so positions mix.",
            lambda x: read(x.permute(0, 3, 1, 2), x.size(2)),
        ),
        Mistake(
            "The heads are interleaved: number 0 of every head, then number 1. Write head 0 first.",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
        ),
        Mistake(
            "The heads come out in the reverse order; head 0 fills the first numbers.",
            lambda x: right(x.flip(1)),
        ),
        Mistake("The heads are added; put them side by side.", lambda x: x.sum(1)),
        Mistake("The heads are averaged; put them side by side.", lambda x: x.mean(1)),
        Mistake("Only the first head is returned.", lambda x: x[:, 0]),
        Mistake(
            "The heads are strung along the sequence; put them side by side in the width.",
            lambda x: x.flatten(1, 2),
        ),
    ],
)
