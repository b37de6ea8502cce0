"""A result of grading, for tests of what happens to it."""

from attncourse.grading.exercise import Verdict
from attngrade import Graded
from attngrade.journal import Result

VERDICTS = (
    Verdict("causal_mask", "failed", 0, 1, ("called with 3, 5: wrong", "\ud800"), "The mask."),
    Verdict("empty_row", "passed", 3, 3),
)
PROTECTIONS = (("a wall", "in force"), ("a roof", "it leaks"))


def result(student="anna", digest="d1", **more) -> Result:
    graded = Graded(student, f"{student}.ipynb", digest, VERDICTS, ("cell 3 raised ValueError",))
    return Result(graded, "likeness", False, PROTECTIONS, **more)
