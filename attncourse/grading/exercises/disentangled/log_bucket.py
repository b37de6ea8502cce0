"""Exercise log_bucket: near distances keep themselves, far ones share, and all keep their sign."""

import math
from itertools import pairwise

import numpy as np
import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.disentangled._buckets import RIGHT, Kinds, log_of, others
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(distance, buckets, furthest):
    """How many edges a distance is beyond: 0, 1 .. half, then each larger by one factor."""
    half = buckets // 2
    edges = [
        *range(half),
        *(half * ((furthest - 1) / half) ** (k / (half - 1)) for k in range(half - 1)),
    ]
    found = [
        math.copysign(sum(abs(x) > edge for edge in edges), x) for x in distance.flatten().tolist()
    ]
    return torch.tensor(found).long().view(distance.shape)  # fmt: skip


SIZES = (32, 143), (24, 156), (20, 131), (16, 83), (12, 70)  # buckets, furthest


def cases(seed: int) -> list[Case]:
    """No distance lies on an edge between far buckets, where rounding decides: of 35 right ways to write the rule, in
    float32 and float64, some are off by a bucket on the edges of every pair of sizes that has whole ones. So floor + 1,
    which is another bucket on edges only, passes.
    """
    g = seeded(seed)
    some = torch.randint(-400, 400, (3, 17), generator=g)
    drawn = SIZES[int(torch.randint(len(SIZES), (), generator=g))]
    calls = (
        ("distances 0 to 160, 32 buckets, furthest 143", torch.arange(161), 32, 143),
        ("distances -70 to 70, 16 buckets, furthest 63", torch.arange(-70, 71), 16, 63),
        (f"a table of distances (3, 17), {drawn[0]} buckets, furthest {drawn[1]}", some, *drawn),
        ("queries and keys (5, 7), 8 buckets, furthest 21", torch.arange(5)[:, None] * 9 - torch.arange(7) * 5, 8, 21),
        ("4 buckets, furthest 10", torch.tensor([-300, -3, -2, -1, 0, 1, 2, 3, 8, 300]), 4, 10),
        ("one distance, 20 buckets, furthest 77", some[0, :1], 20, 77),
        ("distances of millions, 10 buckets, furthest 41", torch.tensor([[[4_000_000, -3_000_000]]]), 10, 41),
    )  # fmt: skip
    return [Case(what, rest, gradients=False) for what, *rest in calls]


ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def loops(distance, buckets, furthest):
    def one(x):
        half, size = buckets // 2, abs(x)
        if size > half:
            far = math.log(size / half) / math.log((furthest - 1) / half)
            size = min(buckets - 1, half + math.ceil(far * (half - 1)))
        return size if x > 0 else -size

    return torch.tensor([one(x) for x in distance.flatten().tolist()]).reshape(distance.shape)


@ACCEPTED.add
def as_in_the_published_code(distance, buckets, furthest):
    sign, mid = torch.sign(distance), buckets // 2
    x = torch.where((distance < mid) & (distance > -mid), mid - 1, distance.abs())
    log = torch.ceil(torch.log(x / mid) / math.log((furthest - 1) / mid) * (mid - 1)) + mid
    return torch.where(x <= mid, distance, log * sign).long().clamp(1 - buckets, buckets - 1)


@ACCEPTED.add
def edges_counted(distance, buckets, furthest):
    half = buckets // 2
    factor = ((furthest - 1) / half) ** (1 / (half - 1))
    edges = torch.cat([torch.arange(half), half * factor ** torch.arange(half - 1).double()])
    return torch.bucketize(distance.abs().double(), edges) * distance.sign()


@ACCEPTED.add
def numpy_in_base_2(distance, buckets, furthest):
    half, d = buckets // 2, distance.numpy()
    x = np.clip(np.abs(d), half, furthest - 1)
    far = half + np.ceil(np.log2(x / half) / np.log2((furthest - 1) / half) * (half - 1))
    return torch.from_numpy(np.where(np.abs(d) <= half, d, np.copysign(far, d)))


@ACCEPTED.add
def one_table_of_all_sizes(distance, buckets, furthest):
    """Each far bucket ends where the next one begins."""
    half = buckets // 2
    ends = [half * ((furthest - 1) / half) ** (k / (half - 1)) for k in range(half)]
    table = torch.arange(furthest)
    for bucket, (low, high) in enumerate(pairwise(ends), start=half + 1):
        table[math.floor(low) + 1 : math.floor(high + 1e-6) + 1] = bucket
    found = table[distance.abs().clamp(max=furthest - 1)]
    return found.where(distance >= 0, found.neg())


KEYS_BEHIND = "their buckets are those of the keys before it, with a minus sign"
MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The sign is lost: keys after the query, distance < 0, land in the buckets of those before it; the bucket has the sign of "
     "the distance.", {"sign": lambda found, x, half: found}),
    ("The sign is turned; the bucket has the sign of the distance.", {"sign": lambda found, x, half: -found * x.sign()}),
    ("Near distances keep their sign and far ones lose it; every bucket has the sign of its distance.",
     {"sign": lambda found, x, half: torch.where(x.abs() <= half, x, found)}),
    ("Far distances keep their sign and near ones lose it; every bucket has the sign of its distance.",
     {"sign": lambda found, x, half: torch.where(x.abs() <= half, found, found * x.sign())}),
    (f"Keys after the query, distance < 0, all get bucket 0; {KEYS_BEHIND}.", {"size": lambda x: x.clamp(min=0)}),
    (f"Keys after the query, distance < 0, keep their distance however far they are; {KEYS_BEHIND}.",
     {"sign": lambda found, x, half: torch.where(x < 0, x, found)}),
    (f"Keys after the query, distance < 0, are only cut at the last bucket; {KEYS_BEHIND}.",
     {"sign": lambda found, x, half: torch.where(x < 0, x.clamp(min=-int(found.max())), found)}),
    ("Keys after the query get positive buckets of their own, as T5's do; here a bucket is a distance with its sign.",
     {"finish": lambda found, x: torch.where(x < 0, found.abs() + found.abs().max(), found)}),
    ("The buckets are shifted, so that none is negative; that is done later, when they pick a row of the table.",
     {"finish": lambda found, x: found + found.abs().max()}),
    ("All buckets are one too large; distance 0 has bucket 0.", {"finish": lambda found, x: found + 1}),
    ("All buckets but 0 are one too far from 0.", {"finish": lambda found, x: found + x.sign()}),
    ("All buckets are one too near to 0; distance 1 has bucket 1.", {"finish": lambda found, x: found - found.sign()}),
    ("The distances are returned as they are; far ones share buckets.", {"finish": lambda found, x: x}),
    ("Far buckets are one too small: shares are rounded up, not down as .long() does, and the first far bucket is half + 1.", {"whole": torch.floor}),
    ("Shares of buckets are rounded to the nearest; round them up.", {"whole": torch.round}),
    ("The bucket is rounded up with its sign, so that negative ones are rounded towards 0; put the sign on at the end.",
     {"whole": lambda far: far, "sign": lambda found, x, half: (found * x.sign()).ceil()}),
    ("The far buckets are equally wide; each is wider than the one before by the same factor: take logarithms.",
     log_of(lambda x, half, top: (x - half) / (top - half))),
    ("The logarithm is not divided by that of (furthest - 1) / half, so furthest plays no part.",
     log_of(lambda x, half, top: (x / half).log())),
    ("The logarithm is divided by log(furthest - 1); divide by log((furthest - 1) / half).",
     log_of(lambda x, half, top: (x / half).log() / math.log(top))),
    ("All far distances get the last bucket: the logarithm is that of the distance, not of distance / half, or its share is rounded "
     "up before it is multiplied by half - 1.",
     log_of(lambda x, half, top: x.log() / math.log(top / half))),
    ("Both logarithms lack the division by half.", log_of(lambda x, half, top: x.log() / math.log(top))),
    ("The logarithms are those of the distance beyond half, distance - half; divide by half.",
     log_of(lambda x, half, top: (x - half + 1).log() / math.log(top - half + 1))),
    ("The logarithms are not of the same base: log2 or log10 here, log there.", log_of(lambda x, half, top: (x / half).log2() / math.log(top / half))),
    ("The logarithms are not of the same base: log2 or log10 here, log there.", log_of(lambda x, half, top: (x / half).log() / math.log2(top / half))),
    ("distance // half is rounded down before its logarithm is taken; divide with /.",
     log_of(lambda x, half, top: (x // half).log() / math.log(top / half))),
    ("(furthest - 1) // half is rounded down before its logarithm is taken; divide with /.",
     log_of(lambda x, half, top: (x / half).log() / math.log(max(top // half, 1.5)))),
    ("Each far bucket is twice as wide as the one before, whatever furthest is; divide the logarithm by log((furthest - 1) / half).",
     {**log_of(lambda x, half, top: (x / half).log2()), "steps": lambda half, buckets: 1}),
    ("Distance half has bucket half; the far rule begins behind it.", {"near": torch.lt, "whole": lambda far: far.floor() + 1}),
    ("Square roots are taken; take logarithms.", log_of(lambda x, half, top: ((x - half) / (top - half)).sqrt())),
    ("log1p is the logarithm of 1 + x; take that of distance / half.",
     log_of(lambda x, half, top: torch.log1p(x / half) / math.log1p(top / half))),
    ("furthest is always 128; use the one that is given.", {"top": lambda furthest: 127}),
    ("furthest is always 512; use the one that is given.", {"top": lambda furthest: 511}),
    ("furthest is taken as it is; the last bucket is full at furthest - 1.", {"top": lambda furthest: furthest}),
    ("furthest + 1 is taken; the last bucket is full at furthest - 1.", {"top": lambda furthest: furthest + 1}),
    ("There are half far buckets; there are half - 1.", {"steps": lambda half, buckets: half}),
    ("There are half - 2 far buckets; there are half - 1.", {"steps": lambda half, buckets: half - 2}),
    ("There are half + 1 far buckets; there are half - 1.", {"steps": lambda half, buckets: half + 1}),
    ("There are as many far buckets as buckets; there are half - 1.", {"steps": lambda half, buckets: buckets}),
    ("There are buckets - 1 far buckets; there are half - 1.", {"steps": lambda half, buckets: buckets - 1}),
    ("The far buckets are not counted: the logarithm is not multiplied by half - 1.", {"steps": lambda half, buckets: 1}),
    ("The far buckets are counted from 0, and near ones are lost among them; count on from half.", {"first": lambda half: 0}),
    ("The far buckets begin one too late: the first is half + 1.", {"first": lambda half: half + 1}),
    ("half is a quarter of the buckets; take buckets // 2, since the sign doubles them already.", {"half": lambda buckets: buckets // 4}),
    ("half is all the buckets; take buckets // 2.", {"half": lambda buckets: buckets}),
    ("half is one too small; take buckets // 2.", {"half": lambda buckets: buckets // 2 - 1}),
    ("half is one too large; take buckets // 2.", {"half": lambda buckets: buckets // 2 + 1}),
    ("Distances of furthest and more run out of the table; they share the last bucket, buckets - 1.",
     {"last": lambda buckets: 10**9}),
    ("The last bucket is number buckets here; it is buckets - 1.", {"last": lambda buckets: buckets}),
    ("The last bucket is never used; it is buckets - 1.", {"last": lambda buckets: buckets - 2}),
    ("Buckets are cut off at half; far ones go on to buckets - 1.", {"last": lambda buckets: buckets // 2}),
    ("The buckets are clipped distances; far distances share buckets that widen.",
     {"finish": lambda found, x: x.clamp(-found.abs().max(), found.abs().max())}),
    ("Far distances all get bucket 0: torch.where has its two answers exchanged, or one of them is missing.",
     {"finish": lambda found, x: torch.where(x == found, x, 0)}),
    ("Where the rule for far distances is needed, the distance itself is returned, and the other way round: the answers of "
     "torch.where are exchanged.", {"near": torch.gt}),
    ("The rule for far distances is used for all; near ones keep their distance.", {"near": lambda x, half: x < 0}),
    ("The result is flat; it has the shape of distance.", {"finish": lambda found, x: found.flatten()}),
    ("The buckets are returned as a list; return a tensor.", {"finish": lambda found, x: found.tolist()}),
    ("A tuple is returned; return the buckets alone.", {"finish": lambda found, x: (found,)}),
    ("This says which distances are far; return their buckets.", {"finish": lambda found, x: x.abs() > found.abs()}),
    ("distance is changed in place; its caller finds it changed.", {"finish": lambda found, x: (found, x.mul_(2))[0]}),
))  # fmt: skip
MISTAKES += others()

EXERCISE = Exercise(
    name="log_bucket",
    judge=Kinds(definition, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
