"""Exercise log_bucket: near distances keep themselves, far ones share, and all keep their sign."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded
from attncourse.grading.explain.buckets import sides


def definition(distance, buckets, furthest):
    """`spec.log_bucket` of each distance; all beyond furthest - 1 count as that."""
    near = distance.clamp(1 - furthest, furthest - 1).flatten().tolist()
    return torch.tensor([spec.log_bucket(x, buckets, furthest) for x in near]).view(distance.shape)


SIZES = (32, 143), (24, 156), (20, 131), (16, 83), (12, 70)  # buckets, furthest


def cases(seed: int) -> list[Case]:
    """On an edge of a far bucket only where rounding does not decide: with furthest 33."""
    g = seeded(seed)
    some = torch.randint(-400, 400, (3, 17), generator=g)
    drawn = SIZES[int(torch.randint(len(SIZES), (), generator=g))]
    millions = torch.tensor([[[4_000_000, -3_000_000]]])
    table = torch.arange(5)[:, None] * 9 - torch.arange(7) * 5
    calls = (
        ("distances 0 to 160, 32 buckets, furthest 143", torch.arange(161), 32, 143),
        ("distances -70 to 70, 16 buckets, furthest 63", torch.arange(-70, 71), 16, 63),
        ("a table of distances (3, 17), {} buckets, furthest {}".format(*drawn), some, *drawn),
        ("queries and keys (5, 7), 8 buckets, furthest 21", table, 8, 21),
        ("distances -40 to 40, 8 buckets, furthest 33", torch.arange(-40, 41), 8, 33),
        ("4 buckets, furthest 10", torch.tensor([-300, *range(-3, 4), 8, 300]), 4, 10),
        ("distances of millions, 10 buckets, furthest 41", millions, 10, 41),
        ("300 buckets, furthest 700", torch.arange(-900, 901, 13), 300, 700),
    )
    return [Case(what, rest, gradients=False) for what, *rest in calls]


@Dataflow
def right(distance, buckets, furthest):
    half = yield "half", buckets // 2
    size = yield "the distances without their sign", distance.abs()
    logs = yield "the logarithms of distance / half", (size.double().clamp(min=half) / half).log()
    whole = yield "the logarithm of (furthest - 1) / half", math.log((furthest - 1) / half)
    parts = yield "the shares of the far buckets", (half - 1) * (logs / whole)
    up = yield "these shares, rounded up", parts.ceil()
    far = yield "the far buckets", (half + up).clamp(max=buckets - 1)
    near = yield "the near distances, up to half", size <= half
    bucket = yield "the buckets without their sign", torch.where(near, size, far)
    signs = yield "the signs of the distances", distance.sign()
    return (bucket * signs).long()


def equally_wide(distance, buckets, furthest):
    half, size = buckets // 2, distance.abs()
    up = ((half - 1) * (size - half) / (furthest - 1 - half)).ceil().clamp(max=half - 1)
    return (torch.where(size <= half, size, half + up) * distance.sign()).long()


EXERCISE = Exercise(
    name="log_bucket",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(sides(
        ("up to half", lambda x, buckets, furthest: x <= buckets // 2),
        ("of furthest - 1 and more", lambda x, buckets, furthest: x >= furthest - 1),
        ("between half and furthest - 1",
         lambda x, buckets, furthest: buckets // 2 < x < furthest - 1),
        ("beyond half", lambda x, buckets, furthest: x > buckets // 2),
    ),),
    ideas=[
        Mistake("The far buckets are equally wide; each is wider than the one before by the same "
                "factor: take logarithms.", equally_wide),
        right.but("The shares of the far buckets are rounded down; round them up.",
                  "the shares of the far buckets", torch.floor),
    ],
)  # fmt: skip
