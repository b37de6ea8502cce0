"""Is it right? Three functions for an exercise notebook: `check`, `hint` and `status`.

    from attncourse.grading import check, hint, status
    check("split_heads", split_heads)

The verdict is for learning: it is computed in your own process, and nothing is sent anywhere.
"""

from attncourse.grading.check import CheckFailed, check, hint, status
from attncourse.grading.exercises import load, names

CELL_SECONDS = 120  # time limit of a cell or an exercise, by default
__all__ = ["CheckFailed", "check", "hint", "load", "names", "status"]
