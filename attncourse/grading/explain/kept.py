"""Is something kept between calls that changes later ones?"""

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked
from attncourse.grading.judges import AGAIN

KEPT = "something is kept between calls"


def kept_between(asked: Asked) -> str:
    """Right results that turn wrong, or that of another call, once others were made."""
    if not asked.wrong:
        told = asked.seen.get(AGAIN, True)
        return (
            ""
            if told is True
            else (
                "Every call is right the first time. Asked again in the opposite order, "
                f"{str(told).removeprefix('no: ')}: {KEPT} that changes them."
            )
        )
    right = {x.label: x.expected for x in asked.calls if not difference(x.expected, x.seen)}
    for call in asked.wrong:
        before, _, changed = call.label.rpartition("; ")
        if before not in right or difference(right[before], call.seen):
            return ""
    return (
        f"All listed calls are right, but {changed} gives the result of before, as in the call "
        f"'{before}': {KEPT} that should be made anew."
    )
