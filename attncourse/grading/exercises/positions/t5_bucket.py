"""Exercise t5_bucket: near distances have a bucket each, far ones share."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.explain.buckets import sides
from attncourse.grading.numerals import as_tensor


def definition(distance, buckets, furthest):
    """`spec.t5_bucket` for each distance."""
    found = [spec.t5_bucket(x, buckets, furthest) for x in distance.flatten().tolist()]
    return torch.tensor(found).view(distance.shape).double()


def cases(seed: int) -> list[Case]:
    """No whole distance lies on an edge, so that rounding decides nothing."""
    some = torch.randint(-250, 250, (3, 17), generator=seeded(seed))
    table = torch.arange(5)[:, None] * 9 - torch.arange(7) * 5
    calls = (
        ("distances 0 to 120, 32 buckets, furthest 100", torch.arange(121), 32, 100),
        ("distances -45 to 45, 16 buckets, furthest 37", torch.arange(-45, 46), 16, 37),
        ("a table of distances (3, 17), 32 buckets, furthest 100", some, 32, 100),
        ("queries and keys (5, 7), 8 buckets, furthest 21", table, 8, 21),
        ("300 buckets, furthest 1003", 3 * torch.arange(-400, 400), 300, 1003),
        ("4 buckets, furthest 10", torch.tensor([-300, -1, 0, 1, 2, 300]), 4, 10),
        ("no distance at all, 8 buckets, furthest 21", table[:0], 8, 21),
    )  # fmt: skip
    return [Case(what, rest, gradients=False) for what, *rest in calls]


@Dataflow
def right(distance, buckets, furthest):
    half = yield "the buckets of a side", buckets // 2
    e = yield "e", half // 2
    far = yield "the distances without their sign", distance.abs()
    logs = yield "the logarithms of distance / e", (far.clamp(min=e) / e).log()
    shares = yield "the logarithms over that of furthest / e", logs / math.log(furthest / e)
    parts = yield "the places of far distances, not yet whole", e + (half - e) * shares
    large = yield "the buckets of far distances", parts.long().clamp(max=half - 1)
    near = yield "the near distances, below e", far < e
    bucket = yield "the buckets on their side", torch.where(near, far, large)
    after = yield "the keys that come after", distance < 0
    return bucket + half * after


EXERCISE = Exercise(
    name="t5_bucket",
    judge=Calls(definition, cases, gradients=False, reads=as_tensor),
    right=right,
    explain=(
        sides(
            ("nearer than e", lambda x, buckets, furthest: x < buckets // 4),
            ("beyond furthest", lambda x, buckets, furthest: x > furthest),
            ("from e to furthest", lambda x, buckets, furthest: buckets // 4 <= x <= furthest),
            ("of e and further", lambda x, buckets, furthest: x >= buckets // 4),
        ),
    ),
)
