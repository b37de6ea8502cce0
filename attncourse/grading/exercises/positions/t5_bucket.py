"""Exercise t5_bucket: near distances have a bucket each, far ones share."""

import math

import torch

from attncourse import spec
from attncourse.grading.dataflow import Value, dataflow, value
from attncourse.grading.exercise import Calls, Case, Exercise
from attncourse.grading.explain.places import apart
from attncourse.grading.inputs import seeded
from attncourse.grading.mistake import Mistake


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


@dataflow()
def right(distance, buckets, furthest):
    half = yield Value("the buckets of a side", (), buckets // 2)
    e = yield Value("e", (), half // 2)
    far = yield value("the distances without their sign: x", distance.abs())
    logs = yield value(f"{LOGS}: x", (far.clamp(min=e) / e).log())
    shares = yield value(f"{SHARES}: x", logs / math.log(furthest / e))
    parts = yield value(f"{PARTS}: x", e + (half - e) * shares)
    large = yield value(f"{LARGE}: x", parts.long().clamp(max=half - 1))
    near = yield value("the near distances, below e: x", far < e)
    bucket = yield value("the buckets on their side: x", torch.where(near, far, large))
    after = yield value(f"{AFTER}: x", distance < 0)
    return bucket + half * after


def sides(asked):
    """On which side and how far away distances with wrong buckets are, and what is wrong."""
    rows = []  # of each wrong bucket: the distance, e, furthest, the right bucket, the wrong one
    for x in asked.shaped:
        distance, buckets, furthest = x.case.args
        wrong = apart(x.expected, x.seen)
        columns = (t[wrong].tolist() for t in (distance, x.expected, x.seen))
        rows += [(d, buckets // 4, furthest, *both) for d, *both in zip(*columns, strict=True)]
    (d, e, furthest, asks, got), *_ = rows
    places = (
        ("nearer than e", all(abs(x) < near for x, near, *_ in rows)),
        ("beyond furthest", all(abs(x) > most for x, _, most, *_ in rows)),
        ("from e to furthest", all(near <= abs(x) <= most for x, near, most, *_ in rows)),
        ("of e and further", all(abs(x) >= near for x, near, *_ in rows)),
    )
    signs = (
        ("below 0", all(x < 0 for x, *_ in rows)),
        ("of 0 and more", all(x >= 0 for x, *_ in rows)),
    )
    kinds = [next((name for name, true in of if true), "") for of in (signs, places)]
    only = " and ".join(filter(None, kinds))
    how = {seen > right for *_, right, seen in rows}
    size = "" if len(how) > 1 else f", all of them too {'large' if how.pop() else 'small'}"
    what = f"Only buckets of distances {only} are wrong" if only else "Buckets are wrong"
    return (
        f"{what}{size}: with {4 * e} buckets and furthest {furthest}, distance {d} gets "
        f"bucket {got:g}; it should get {asks}."
    )


EXERCISE = Exercise(
    name="t5_bucket",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(sides,),
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
