"""Exercise t5_bucket: near distances have a bucket each, far ones share."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded
from attncourse.grading.explain.buckets import sides


def definition(distance, buckets, furthest):
    """`spec.t5_bucket` for each distance."""
    found = [spec.t5_bucket(x, buckets, furthest) for x in distance.flatten().tolist()]
    return torch.tensor(found).view(distance.shape)


def cases(seed: int) -> list[Case]:
    """No whole distance lies on an edge, so that rounding decides nothing."""
    some = torch.randint(-250, 250, (3, 17), generator=seeded(seed))
    table = torch.arange(5)[:, None] * 9 - torch.arange(7) * 5
    far = 7 * some[0, :12].view(2, 2, 3)
    calls = (
        ("distances 0 to 120, 32 buckets, furthest 100", torch.arange(121), 32, 100),
        ("distances -45 to 45, 16 buckets, furthest 37", torch.arange(-45, 46), 16, 37),
        ("a table of distances (3, 17), 32 buckets, furthest 100", some, 32, 100),
        ("queries and keys (5, 7), 8 buckets, furthest 21", table, 8, 21),
        ("4 buckets, furthest 10", torch.tensor([-300, -1, 0, 1, 2, 300]), 4, 10),
        ("one distance, 20 buckets, furthest 33", some[0, :1], 20, 33),
        ("far distances (2, 2, 3), 24 buckets, furthest 1003", far, 24, 1003),
    )  # fmt: skip
    return [Case(what, rest, gradients=False) for what, *rest in calls]


AFTER, LOGS = "the keys that come after", "the logarithms of distance / e"
SHARES = "these logarithms, divided by that of furthest / e"
PARTS, LARGE = "the places of far distances, not yet whole", "the buckets of far distances"


@Dataflow
def right(distance, buckets, furthest):
    half = yield ("the buckets of a side", buckets // 2)
    e = yield ("e", half // 2)
    far = yield "the distances without their sign", distance.abs()
    logs = yield LOGS, (far.clamp(min=e) / e).log()
    shares = yield SHARES, logs / math.log(furthest / e)
    parts = yield PARTS, e + (half - e) * shares
    large = yield LARGE, parts.long().clamp(max=half - 1)
    near = yield "the near distances, below e", far < e
    bucket = yield "the buckets on their side", torch.where(near, far, large)
    after = yield AFTER, distance < 0
    return bucket + half * after


EXERCISE = Exercise(
    name="t5_bucket",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(sides(
        ("nearer than e", lambda x, buckets, furthest: x < buckets // 4),
        ("beyond furthest", lambda x, buckets, furthest: x > furthest),
        ("from e to furthest", lambda x, buckets, furthest: buckets // 4 <= x <= furthest),
        ("of e and further", lambda x, buckets, furthest: x >= buckets // 4),
    ),),
    ideas=[
        Mistake("Both sides share their buckets; keys that come after use the second half.",
                lambda x, b, f: right(x.abs(), b, f)),
        Mistake("Keys that come after count as distance 0; they have buckets of their own.",
                lambda x, b, f: right(x.clamp(min=0), b, f)),
        right.but("Each side uses all the buckets; each has half of them.",
                  "the buckets of a side", lambda half: 2 * half),
        right.but("A quarter of a side has buckets of single distances; half of a side has.",
                  "e", lambda e: e // 2),
        right.but("Places of far distances are rounded up; round them down.", PARTS, torch.ceil),
        right.but("Places of far distances are rounded to the nearest; round them down.",
                  PARTS, torch.round),
        *(right.but("The logarithms have different bases; above and below the line it is the same.",
                    LOGS, lambda x, b=b: x / math.log(b)) for b in (2, 10)),
        right.but("distance / e is rounded down before its logarithm is taken: / instead of //.",
                  LOGS, lambda x: (x.exp() + 1e-6).floor().log()),
    ],
)  # fmt: skip
