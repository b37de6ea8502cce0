"""Exercise log_bucket: near distances keep themselves, far ones share, and all keep their sign."""

import math
from collections.abc import Callable

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded
from attncourse.grading.explain.buckets import sides


def definition(distance, buckets, furthest):
    """How many edges a distance is beyond: 0, 1 .. half, then each larger by one factor."""
    half, factor = buckets // 2, (furthest - 1) / (buckets // 2)
    edges = [*range(half), *(half * factor ** (k / (half - 1)) for k in range(half - 1))]
    size = (distance.abs()[..., None] > torch.tensor(edges, dtype=torch.float64)).sum(-1)
    return size * distance.sign()


SIZES = (32, 143), (24, 156), (20, 131), (16, 83), (12, 70)  # buckets, furthest


def cases(seed: int) -> list[Case]:
    """No distance lies on an edge of a far bucket, where rounding decides; so floor + 1 passes."""
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
        ("4 buckets, furthest 10", torch.tensor([-300, *range(-3, 4), 8, 300]), 4, 10),
        ("one distance, 20 buckets, furthest 77", some[0, :1], 20, 77),
        ("distances of millions, 10 buckets, furthest 41", millions, 10, 41),
    )
    return [Case(what, rest, gradients=False) for what, *rest in calls]


HALF, TOP, STEPS = "half", "furthest - 1", "how many far buckets there are"
LOGS, PARTS = "the logarithms of distance / half", "the shares of the far buckets"


@Dataflow
def right(distance, buckets, furthest):
    half = yield HALF, buckets // 2
    top = yield (TOP, furthest - 1)
    size = yield "the distances without their sign", distance.abs()
    logs = yield LOGS, (size.double().clamp(min=half) / half).log()
    shares = yield "these logarithms, divided by that of the furthest", logs / math.log(top / half)
    steps = yield (STEPS, half - 1)
    parts = yield PARTS, steps * shares
    up = yield "these shares, rounded up", parts.ceil()
    far = yield "the far buckets", (half + up).clamp(max=buckets - 1)
    near = yield "the near distances, up to half", size <= half
    bucket = yield "the buckets without their sign", torch.where(near, size, far)
    signs = yield "the signs of the distances", distance.sign()
    return (bucket * signs).long()


def sharing(says: str, share: Callable) -> Mistake:
    """The mistake with another share of the far buckets: of distances, half and furthest - 1."""

    def answer(distance, buckets, furthest):
        half, size = buckets // 2, distance.abs().double()
        up = ((half - 1) * share(size.clamp(min=half), half, furthest - 1)).ceil()
        far = (half + up).clamp(max=buckets - 1)
        return (torch.where(size <= half, size, far) * distance.sign()).long()

    return Mistake(says, answer)


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
        right.but("Shares of the far buckets are rounded down, as // and .long() do; round up.",
                  PARTS, torch.floor),
        right.but("furthest is taken as it is; the last bucket is full at furthest - 1.",
                  TOP, lambda top: top + 1),
        right.but("There are half far buckets; there are half - 1.", STEPS, lambda x: x + 1),
        sharing("The far buckets are equally wide; each is wider than the one before by the same "
                "factor: take logarithms.", lambda x, half, top: (x - half) / (top - half)),
        sharing("The logarithm is not divided by that of (furthest - 1) / half.",
                lambda x, half, top: (x / half).log()),
    ],
)  # fmt: skip
