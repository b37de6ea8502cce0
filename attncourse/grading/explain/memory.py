"""The results are right: is too much made on the way to them?"""

from attncourse.grading.compare import Described
from attncourse.grading.explain.asked import Asked


def too_large(asked: Asked) -> str:
    """What is made on the way is too large, and what to do instead."""
    judge = asked.exercise.judge
    found = asked.seen.get(getattr(judge, "title", ""))
    if asked.wrong or not isinstance(found, Described):
        return ""
    says = "The results are right, but something is too large that is made on the way."
    return f"{says} {judge.instead}".strip()
