"""Exercise split_heads: cut the width into heads, and move the heads before the sequence."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Exercise, seeded
from attncourse.grading.explain.places import moved

CALLS = (  # special about the call, shape in memory, its axes in order, num_heads
    ("2 samples, 5 positions, 3 heads of 7 numbers", (2, 5, 21), (0, 1, 2), 3),
    ("1 head", (2, 3, 5), (0, 1, 2), 1),
    ("3 positions, 6 heads of 2 numbers", (2, 3, 12), (0, 1, 2), 6),
    ("3 heads of 1 number, 3 positions", (2, 3, 3), (0, 1, 2), 3),
    ("a transposed input", (2, 6, 5), (0, 2, 1), 2),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [
        Case(what, (torch.randn(shape, generator=g).permute(axes), heads))
        for what, shape, axes, heads in CALLS
    ]


def right(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


EXERCISE = Exercise(
    name="split_heads",
    judge=Calls(spec.split_heads, cases),
    right=right,
    axes=("b h t d",),
    explain=(moved("x"),),
)
