"""Is it right? Three functions for an exercise notebook: `check`, `hint` and `status`.

    from attncourse.grading import check, hint, status
    check("split_heads", split_heads)

The verdict is for learning: it is computed in your own process, and nothing is sent anywhere.

Words that the modules of this folder use alone:

    case        one call of an answer, with a label that says what is special about it
    mistake     a wrong answer with its sentence
    idea        a mistake that an exercise lists by hand
    explainer   a function that asks one question about what a wrong answer shows
    sentence    what a student reads: true of every answer that hears it
"""

from attncourse.grading.check import CheckFailed, check, hint, status
from attncourse.grading.exercises import load, names

CELL_SECONDS = 120  # time limit of a cell or an exercise, by default
__all__ = ["CheckFailed", "check", "hint", "load", "names", "status"]
