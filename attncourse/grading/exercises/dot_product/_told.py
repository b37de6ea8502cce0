"""A number of which something can be computed: what would follow if it were right."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Number


@dataclass(frozen=True)
class Told(Number):
    """`Number` with a sentence for each number that no known mistake explains.

    Args:
        tells: a number -> a true sentence about it, or ''.
    """

    tells: Callable[[float], str] = lambda x: ""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.dim():
            return ""
        x = float(found.value)
        return (
            self.tells(x) if math.isfinite(x) else "This is NaN or infinite: no number to compare."
        )
