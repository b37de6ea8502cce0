"""Claims about results that are single numbers."""

from itertools import chain

from fresh.claims import NUMBER, claim, near, number
from fresh.evidence import Evidence, parts


def every_number(evidence: Evidence) -> list[tuple[float, float]]:
    """Right and seen numbers of results that are single numbers."""
    several = [zip(parts(x.right), parts(x.seen), strict=False) for x in evidence.calls]
    both = chain.from_iterable(several)
    return [
        x for x in both if all(isinstance(y, int | float) and not isinstance(y, bool) for y in x)
    ]


def _off(evidence: Evidence) -> list[tuple[float, float]]:
    return [(x, y) for x, y in every_number(evidence) if x != y]


@claim(r"one gets the number by counting one too (many|few)")
def _one(found, evidence):
    term = 1 if found[1] == "many" else -1
    return all(y - x == term for x, y in off) if (off := _off(evidence)) else None


@claim(rf"one gets the number by (multiplying|dividing) the right one by {NUMBER}")
def _factor(found, evidence):
    factor = number(found[2]) ** (1 if found[1] == "multiplying" else -1)
    return all(near(x * factor, y, 1e-6) for x, y in off) if (off := _off(evidence)) else None


@claim(r"^In (\d+) of (\d+) cases (?:one gets )?the number")
def _cases(found, evidence):
    told = every_number(evidence)
    return (len(_off(evidence)), len(told)) == (int(found[1]), int(found[2])) if told else None
