"""Logarithmic buckets that keep their sign, in steps, and which distances an answer has put elsewhere."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Calls, Mistake, cases_of
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


RIGHT = Buckets()


def log_of(change):
    """The share of the far buckets, told otherwise."""
    return {"far": change}


def rounded_before_divided(distance, buckets, furthest):
    """The brackets of ceil end too early."""
    half, x = buckets // 2, distance.abs()
    far = torch.ceil((half - 1) * (x.clamp(min=half) / half).log()) / math.log(
        (furthest - 1) / half
    )
    return (torch.where(x <= half, x, (half + far).clamp(max=buckets - 1)) * distance.sign()).long()


def others() -> Iterator[Mistake]:
    """Wrong answers that replace more than a step."""
    for says, answer in (
        ("The buckets are shifted, so that none is negative; that is done later, when they pick a row of the table.",
         lambda x, buckets, furthest: RIGHT(x, buckets, furthest) + buckets),
        ("The buckets are shifted, so that none is negative; that is done later, when they pick a row of the table.",
         lambda x, buckets, furthest: RIGHT(x, buckets, furthest) + buckets - 1),
        ("The largest bucket is clamped, the smallest is not; it is 1 - buckets.",
         lambda x, buckets, furthest: RIGHT(x, buckets, furthest).where(x > 0, Buckets(last=lambda _: 10**9)(x, buckets, furthest))),
        ("The logarithm is multiplied and rounded up before it is divided; round at the end.", rounded_before_divided),
        ("The logarithm is divided by half; take that of distance / half.",
         Buckets(far=lambda x, half, top: x.log() / half / math.log(top / half))),
        ("distance / distance.abs() is NaN at 0; sign() is 0 there.",
         lambda x, buckets, furthest: RIGHT(x.abs(), buckets, furthest) * (x / x.abs())),
        ("Only one distance can be looked up, by int() or .item(); distance is a tensor of any shape.", lambda x, buckets, furthest: RIGHT(x, buckets, furthest) + 0 * x.item()),
        ("Each bucket is there once; return one for each distance.", lambda x, buckets, furthest: RIGHT(x, buckets, furthest).unique()),
        ("The largest distance that came takes the place of furthest - 1; use the furthest that is given.",
         lambda x, buckets, furthest: Buckets(top=lambda _: max(int(x.abs().max()), buckets // 2 + 1))(x, buckets, furthest)),
    ):  # fmt: skip
        yield Mistake(says, answer)


class Kinds(Calls):
    """`Calls` of whole numbers, floats or not, that says which kinds of distances are in the wrong bucket."""

    def observe(self, answer, seed: int) -> Iterator[tuple[str, Any]]:
        for what, found in super().observe(answer, seed):
            whole = plain(found) and found.is_floating_point() and torch.equal(found, found.round())
            yield what, found.long() if whole else found

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
            if not plain(got) or got.dtype == torch.bool:
                return ""
            if (distance == 0).any() and torch.equal(~got.isfinite(), distance == 0):
                return "Distance 0 gives no number: the logarithm of 0 is minus infinity. Distances up to half keep themselves."
            if not got.isfinite().all():
                return ""
            if got.shape != right.shape:
                return f"{case.label}: the result has the shape {tuple(got.shape)}; it should be {tuple(right.shape)}, as that of distance."
            x, half = distance.abs(), buckets // 2
            far = (x > half) & (x < furthest - 1)
            for what, which in (
                ("distances whose buckets are their own", x <= half),
                ("far distances", far & (distance > 0)),
                ("far distances of keys after the query", far & (distance < 0)),
                ("distances of furthest - 1 and more", (x >= furthest - 1)),
            ):
                wrong = which & ((got - right).abs() > 1e-3)
                if wrong.any():
                    one = (table[wrong].flatten()[0].item() for table in (distance, right, got))
                    of = f"{buckets} buckets and furthest {furthest}"
                    found.setdefault(what, f"{what} (with {of}, {next(one)} belongs to {next(one)}, not {next(one):g})")  # fmt: skip
        return f"In the wrong bucket are {'; '.join(found.values())}." if found else ""
