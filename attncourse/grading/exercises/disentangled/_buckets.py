"""Logarithmic buckets that keep their sign, in steps, and which distances an answer has put elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.recipe import Recipe


def share(x, half, top):
    """How much of the way from half to top, in logarithms, lies behind a distance."""
    return (x / half).log() / torch.as_tensor(top / half).log()


@dataclass(frozen=True)
class Buckets:
    """A right answer in steps; `but` replaces some of them.

    Args:
        half: buckets -> up to where each distance has a bucket of its own.
        size: distance -> how far.
        near: (how far, half) -> is it one of those?
        own: how far -> the bucket of a near one.
        top: furthest -> the distance at which the last bucket is full.
        far: (how far, half, top) -> share of the far buckets.
        steps: (half, buckets) -> how many far buckets there are.
        whole: rounds.
        first: half -> what is added to it.
        last: buckets -> the last bucket.
        sign: (bucket, distance, half) -> with its sign.
        finish: what is returned.
    """

    half: Callable = lambda buckets: buckets // 2
    size: Callable = torch.abs
    near: Callable = torch.le
    own: Callable = lambda x: x
    top: Callable = lambda furthest: furthest - 1
    far: Callable = share
    steps: Callable = lambda half, buckets: half - 1
    whole: Callable = torch.ceil
    first: Callable = lambda half: half
    last: Callable = lambda buckets: buckets - 1
    sign: Callable = lambda bucket, distance, half: bucket * distance.sign()
    finish: Callable = lambda bucket, distance: bucket
    but = Recipe.but

    def __call__(self, distance, buckets, furthest):
        half, x = self.half(buckets), self.size(distance).double()
        far = self.far(x.clamp(min=half), half, self.top(furthest)) * self.steps(half, buckets)
        far = (self.first(half) + self.whole(far)).clamp(max=self.last(buckets))
        bucket = torch.where(self.near(x, half), self.own(x), far).nan_to_num(0.0)
        return self.finish(self.sign(bucket, distance, half).long(), distance)


def log_of(change):
    """The share of the far buckets, told otherwise."""
    return {"far": change}


class Kinds(Calls):
    """`Calls` that says which kinds of distances are in the wrong bucket."""

    def notice(self, expected, seen, seed: int) -> str:
        found = {}
        lines = [
            x for x in cases_of(self, seed) if isinstance(seen.get(f"{x.label}, output"), Raised)
        ]
        if lines and all(case.args[0].dim() > 1 for case in lines):
            return "It fails where distance is a table; it can have any shape."
        for case in cases_of(self, seed):
            right, got = (x.get(f"{case.label}, output") for x in (expected, seen))
            distance, buckets, furthest = case.args
            if not plain(got) or got.shape != right.shape:
                return ""
            x, half = distance.abs(), buckets // 2
            far = (x > half) & (x < furthest - 1)
            for what, which in (
                ("distances whose buckets are their own", x <= half),
                ("far distances", far & (distance > 0)),
                ("far distances of keys behind the query", far & (distance < 0)),
                ("distances of furthest - 1 and more", (x >= furthest - 1)),
            ):
                wrong = which & ((got - right).abs() > 1e-3)
                if wrong.any():
                    one = (table[wrong].flatten()[0].item() for table in (distance, right, got))
                    of = f"{buckets} buckets and furthest {furthest}"
                    found.setdefault(what, f"{what} (with {of}, {next(one)} belongs to {next(one)}, not {next(one):g})")  # fmt: skip
        return f"In the wrong bucket are {'; '.join(found.values())}." if found else ""
