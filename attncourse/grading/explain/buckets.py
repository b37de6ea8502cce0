"""Distances that share buckets: which of them get another bucket than they should, and which?"""

import math
from collections.abc import Callable

from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.places import apart

SIGNS = (("below 0", lambda x: x < 0), ("of 0 and more", lambda x: x >= 0))
HOW = (  # what is true of all wrong buckets
    ("but only in their sign", lambda right, seen: abs(seen) == abs(right)),
    ("all of them 0", lambda right, seen: seen == 0),
    ("all of them too large", lambda right, seen: seen > right),
    ("all of them too small", lambda right, seen: seen < right),
    ("all of them too far from 0", lambda right, seen: abs(seen) > abs(right)),
    ("all of them too near to 0", lambda right, seen: abs(seen) < abs(right)),
)


def sides(*parts: tuple[str, Callable[[int, int, int], bool]]) -> Callable[[Asked], str]:
    """An explainer for answers that take distances, how many buckets there are, and the furthest.

    Args:
        parts: names, and which distances are there: of their size, the buckets and the furthest.
    """

    def explainer(asked: Asked) -> str:
        rows = []  # distance, buckets, furthest, the right bucket, its own
        for x in asked.shaped:
            distance, *sizes = x.case.args
            wrong = apart(x.expected, x.seen)
            columns = (t[wrong].tolist() for t in (distance, x.expected, x.seen))
            rows += [(d, *sizes, *both) for d, *both in zip(*columns, strict=True)]
        if not rows or not all(math.isfinite(seen) for *_, seen in rows):
            return ""
        side = (name for name, rule in SIGNS if all(rule(x) for x, *_ in rows))
        place = (name for name, rule in parts if all(rule(abs(x), b, f) for x, b, f, *_ in rows))
        only = " and ".join(filter(None, (next(side, ""), next(place, ""))))
        what = f"Only buckets of distances {only} are wrong" if only else "Buckets are wrong"
        how = (how for how, rule in HOW if all(rule(*row[-2:]) for row in rows))
        distance, buckets, furthest, right, seen = rows[0]
        return (
            f"{what}, {next(how, 'some too large and some too small')}: with {buckets} buckets and "
            f"furthest {furthest}, distance {distance} gets bucket {seen:g}; it should get {right}."
        )

    return explainer
