"""Exercise t5_bucket: near distances have a bucket each, far ones share, and each side has its half."""

import math

import numpy as np
import torch

from attncourse import spec
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.noticing import Noticing, apart
from attncourse.grading.observe import Case


def definition(distance, buckets, furthest):
    """`spec.t5_bucket` for each distance."""
    found = [spec.t5_bucket(x, buckets, furthest) for x in distance.flatten().tolist()]
    return torch.tensor(found).view(distance.shape)


def cases(seed: int) -> list[Case]:
    """No whole distance lies on an edge, so that rounding decides nothing."""
    g = seeded(seed)
    some = torch.randint(-250, 250, (3, 17), generator=g)
    calls = (
        ("distances 0 to 120, 32 buckets, furthest 100", torch.arange(121), 32, 100),
        ("distances -45 to 45, 16 buckets, furthest 37", torch.arange(-45, 46), 16, 37),
        ("a table of distances (3, 17), 32 buckets, furthest 100", some, 32, 100),
        ("queries and keys (5, 7), 8 buckets, furthest 21", torch.arange(5)[:, None] * 9 - torch.arange(7) * 5, 8, 21),
        ("4 buckets, furthest 10", torch.tensor([-300, -1, 0, 1, 2, 300]), 4, 10),
        ("one distance, 20 buckets, furthest 33", some[0, :1], 20, 33),
        ("far distances (2, 2, 3), 24 buckets, furthest 1003", 7 * some[0, :12].view(2, 2, 3), 24, 1003),
    )  # fmt: skip
    return [Case(what, rest, gradients=False) for what, *rest in calls]


def sides(case, expected, seen):
    """On which side, and how far away, buckets are wrong."""
    distance, buckets, _ = case.args
    wrong, e = apart(expected, seen), buckets // 4
    x, near = distance[wrong], distance[wrong].abs() < e
    kinds = ["below 0"] * bool((x < 0).all()) + ["of 0 and more"] * bool((x >= 0).all())
    kinds += [f"nearer than e = {e}"] * bool(near.all()) + [f"of e = {e} and further"] * (
        not near.any()
    )
    one = int(x[0])
    got, right = (t[wrong][0].item() for t in (seen, expected))
    only = f"only distances {' and '.join(kinds)} are wrong; " if kinds else ""
    return f"In the first call that is wrong, {only}distance {one} gets bucket {got:g}, and should get {right:g}."


def bucketed(distance, buckets, furthest, sides=2, exact=2, back=torch.abs, after=lambda x: x < 0, floor=torch.floor,
             far=lambda x, e, top: (x / e).log() / math.log(top / e), near=torch.lt, first=lambda half: half,
             last=1):  # fmt: skip
    """The rule in steps, each of which somebody gets wrong.

    Args:
        sides: among how many the buckets are shared.
        exact: the part of a side that is not logarithmic is its ``exact`` th.
        back: of the distance: how far.
        after: of the distance: does the key come after the query?
        far: (how far, e, furthest) -> share of the far buckets.
        last: how far the last bucket is below the number of buckets of a side.
    """
    half = buckets // sides
    e = half // exact
    x = back(distance).double()
    share = floor(e + (half - e) * far(x.clamp(min=e), e, furthest)).long().clamp(max=half - last)
    return torch.where(near(x, e), x.long(), share) + torch.where(after(distance), first(half), 0)


ACCEPTED = Accepted(where=bucketed)


@ACCEPTED.add
def loops(distance, buckets, furthest):
    def one(x):
        half = buckets // 2
        first, x, e = (half if x < 0 else 0), abs(x), half // 2
        if x < e:
            return first + x
        return first + min(half - 1, e + int(math.log(x / e) / math.log(furthest / e) * (half - e)))

    return torch.tensor([one(x) for x in distance.flatten().tolist()]).reshape(distance.shape)


@ACCEPTED.add
def as_in_the_published_code(distance, buckets, furthest):
    buckets //= 2
    out = (distance < 0).long() * buckets
    x = distance.abs()
    e = buckets // 2
    large = e + (torch.log(x.float() / e) / math.log(furthest / e) * (buckets - e)).long()
    return out + torch.where(x < e, x, torch.min(large, torch.full_like(large, buckets - 1)))


@ACCEPTED.add
def edges_counted(distance, buckets, furthest):
    half, e = buckets // 2, buckets // 4
    steps = torch.arange(1, half - e).double() / (half - e)
    edges = torch.cat([torch.arange(1, e + 1).double(), e * (furthest / e) ** steps])
    return torch.bucketize(distance.abs().double(), edges, right=True) + half * (distance < 0)


@ACCEPTED.add
def numpy_in_base_2(distance, buckets, furthest):
    half, e = buckets // 2, buckets // 4
    x = np.abs(distance.numpy())
    far = e + np.floor(np.log2(np.maximum(x, e) / e) / np.log2(furthest / e) * (half - e))
    return torch.from_numpy(
        np.where(x < e, x, np.minimum(far, half - 1)) + half * (distance.numpy() < 0)
    )


MISTAKES = Mistakes(Mistake(says, lambda x, b, f, to=to: bucketed(x, b, f, **to)) for says, to in (
    ("The second half is used for keys that come before the query; it is for those that come after, distance < 0.",
     {"after": lambda x: x > 0}),
    ("Distance 0 is counted as after; it belongs to the first half.", {"after": lambda x: x <= 0}),
    ("Both sides share the same buckets; keys that come after use the second half.", {"first": lambda half: 0}),
    ("Keys that come after count as distance 0; that is the rule of a decoder. Here they have buckets of their own.",
     {"back": lambda x: x.clamp(min=0), "first": lambda half: 0}),
    ("Each side uses all the buckets; each has half of them.", {"sides": 1}),
    ("Keys that come after are shifted by one bucket too many.", {"first": lambda half: half + 1}),
    ("Keys that come after are shifted by one bucket too few: bucket buckets / 2 stays for distance 0.",
     {"first": lambda half: half - 1}),
    ("A quarter of a side has buckets of single distances; half of a side has.", {"exact": 4}),
    ("Shares of buckets are rounded up; round them down.", {"floor": torch.ceil}),
    ("Shares of buckets are rounded to the nearest; round them down.", {"floor": torch.round}),
    ("All buckets of a side are logarithmic in steps of `half`; the far ones are only half - e.",
     {"far": lambda x, e, top: 2 * (x / e).log() / math.log(top / e)}),
    ("distance / e is rounded down before the logarithm is taken: / instead of //.",
     {"far": lambda x, e, top: (x // e).log() / math.log(top / e)}),
    ("1 is added before the logarithm is taken; it is that of distance / e.",
     {"far": lambda x, e, top: (x / e).log1p() / math.log1p(top / e)}),
    ("The logarithms have different bases; above and below the line it is the same one.",
     {"far": lambda x, e, top: (x / e).log10() / math.log(top / e)}),
    ("The logarithms have different bases; above and below the line it is the same one.",
     {"far": lambda x, e, top: (x / e).log2() / math.log(top / e)}),
    ("The sign of the distance is not taken off before it is sorted: use its absolute value.", {"back": lambda x: x}),
    ("The far buckets are equally wide; their widths grow by one factor: take logarithms.",
     {"far": lambda x, e, top: (x - e) / (top - e)}),
    ("The logarithm is not divided by that of furthest / e, so furthest plays no part.",
     {"far": lambda x, e, top: (x / e).log()}),
    ("The logarithm is divided by log(furthest); divide by log(furthest / e).",
     {"far": lambda x, e, top: (x / e).log() / math.log(top)}),
    ("The logarithm is that of the distance; it is that of distance / e.",
     {"far": lambda x, e, top: x.log() / math.log(top / e)}),
    ("furthest is always 128; use the one that is given.",
     {"far": lambda x, e, top: (x / e).log() / math.log(128 / e)}),
    ("Distances beyond furthest run out of the table; they share the last bucket of their side.", {"last": -99}),
    ("The last bucket of each side is never used.", {"last": 2}),
))  # fmt: skip
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("The buckets are clipped distances; far distances share buckets that widen.",
     lambda x, b, f: x.abs().clamp(max=b // 2 - 1) + torch.where(x < 0, b // 2, 0)),
    ("Keys that come after are shifted by all buckets; the second half starts at buckets / 2.",
     lambda x, b, f: bucketed(x, b, f) + torch.where(x < 0, b // 2, 0)),
    ("Keys that come after run backwards through their half: the near ones have its first buckets.",
     lambda x, b, f: torch.where(x < 0, b + b // 2 - 1 - bucketed(x, b, f), bucketed(x, b, f))),
    ("Buckets are counted from 1; count them from 0.", lambda x, b, f: bucketed(x, b, f) + 1),
    ("The sign of the bucket is that of the distance; a bucket is a column of a table, 0 or more.",
     lambda x, b, f: bucketed(x.abs(), b, f) * x.sign()),
    ("The result is flat; it has the shape of distance.", lambda x, b, f: bucketed(x, b, f).flatten()),
    ("The buckets are returned as a list; return a tensor.", lambda x, b, f: bucketed(x, b, f).tolist()),
    ("distance is changed in place; its caller finds it changed.", lambda x, b, f: (bucketed(x, b, f), x.abs_())[0]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="t5_bucket",
    judge=Noticing(definition, cases, gradients=False, look=sides),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
