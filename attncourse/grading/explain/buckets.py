"""Distances that share buckets: which of them get another bucket than they should, and which?"""

import math
from collections.abc import Callable

from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.places import apart

SIGNS = (("below 0", lambda x: x < 0), ("of 0 and more", lambda x: x >= 0))
Row = tuple[int, int, int, int, float]  # distance, buckets, furthest, the right bucket, its own


def sides(*parts: tuple[str, Callable[[int, int, int], bool]]) -> Callable[[Asked], str]:
    """An explainer for answers that take distances, how many buckets there are, and the furthest.

    Args:
        parts: names, and which distances are there: of their size, the buckets and the furthest.
    """

    def explainer(asked: Asked) -> str:
        rows = _wrong(asked)
        if not rows or 2 * len(asked.raised) > len(asked.wrong):
            return ""
        side = (name for name, rule in SIGNS if all(rule(x) for x, *_ in rows))
        place = (name for name, rule in parts if all(rule(abs(x), b, f) for x, b, f, *_ in rows))
        only = " and ".join(filter(None, (next(side, ""), next(place, ""))))
        what = f"Only buckets of distances {only} are wrong" if only else "Buckets are wrong"
        distance, buckets, furthest, right, seen = rows[0]
        return (
            f"{what}{_how(rows)}: with {buckets} buckets and furthest {furthest}, distance "
            f"{distance} gets bucket {seen:g}; it should get {right}."
        )

    return explainer


def _wrong(asked: Asked) -> list[Row]:
    """All wrong buckets of results that have the right shape."""
    rows: list[Row] = []
    for x in asked.shaped:
        distance, *sizes = x.case.args
        wrong = apart(x.expected, x.seen)
        columns = (t[wrong].tolist() for t in (distance, x.expected, x.seen))
        rows += [(d, *sizes, *both) for d, *both in zip(*columns, strict=True)]
    return rows


def _how(rows: list[Row]) -> str:
    """What is true of all wrong buckets."""
    if not all(math.isfinite(seen) for *_, seen in rows):
        return ", and some are no numbers"
    if all(seen == distance for distance, *_, seen in rows):
        return ", where the distance itself is returned"
    if all(abs(seen) == abs(right) for *_, right, seen in rows):
        return ", but only in their sign"
    if all(seen == 0 for *_, seen in rows):
        return ", all of them 0"
    for size, large, small in (
        (float, "large", "small"),
        (abs, "far from 0", "near to 0"),
    ):
        by = {size(seen) - size(right) for *_, right, seen in rows}
        if min(by) > 0 or max(by) < 0:
            how = f" by {abs(min(by)):g}" if len(by) == 1 else ""
            return f", all of them too {large if min(by) > 0 else small}{how}"
    return ", some too large and some too small"
