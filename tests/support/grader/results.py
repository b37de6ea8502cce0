"""Results of grading, and who grades without doing it, for tests of what happens to them."""

from attncourse.grading.exercise import Verdict
from attngrade import Graded, Result
from attngrade.control import EXERCISE

VERDICTS = (
    Verdict("causal_mask", "failed", 0, 1, ("called with 3, 5: wrong", "\ud800"), "The mask."),
    Verdict("empty_row", "passed", 3, 3),
)
PROTECTIONS = (("a wall", "in force"), ("a roof", "it leaks"))


def result(student="anna", digest="d1", **more) -> Result:
    file = Graded(f"{student}.ipynb", "f1", VERDICTS, ("cell 3 raised ValueError",), ("a note",))
    more = {"official": False, "protections": PROTECTIONS} | more
    return Result(student, digest, (file,), **more)


def passes(order, settings) -> Result:
    """Instead of `attngrade.grader.grade`: everybody, a control too, gets the points of one exercise."""
    verdicts = (Verdict(EXERCISE, "passed", 3, 3),)
    files = tuple(Graded(file.name, file.digest, verdicts) for file in order.files)
    return Result(order.student, order.digest, files, protections=(("a wall", "in force"),))
