"""Claims about results that are single numbers."""

from itertools import chain

from torch import Tensor

from fresh.claims import claim
from fresh.evidence import Evidence, parts


def every_number(evidence: Evidence) -> list[tuple[float, float]]:
    """Right and seen numbers of results that are single numbers."""
    several = [zip(parts(x.right), parts(x.seen), strict=False) for x in evidence.calls]
    both = chain.from_iterable(several)
    one = lambda x: isinstance(x, int | float) or isinstance(x, Tensor) and x.numel() == 1  # noqa: E731
    return [(float(x), float(y)) for x, y in both if one(x) and one(y)]


def _off(evidence: Evidence) -> list[tuple[float, float]]:
    return [(x, y) for x, y in every_number(evidence) if abs(x - y) > 1e-6 * abs(x)]


@claim(r"numbers? (?:is|are) ([\d.e+-]+) too (large|small)")
def _term(found, evidence):
    term = float(found[1]) * (1 if found[2] == "large" else -1)
    return all(abs(y - x - term) <= 1e-4 for x, y in off) if (off := _off(evidence)) else None


@claim(r"^In (\d+) of (\d+) cases the numbers?")
def _cases(found, evidence):
    told = every_number(evidence)
    return (len(_off(evidence)), len(told)) == (int(found[1]), int(found[2])) if told else None
