"""What `attncourse.grading` is to a submission that is graded: `check` only takes the answer."""

from typing import Any

_answers: dict[str, Any] = {}


def check(name: str, answer: Any) -> None:
    """Keep the answer; it is judged when all cells have run."""
    _answers[name] = answer


def hint(*rest: Any, **options: Any) -> None:
    """Nothing: nobody reads it."""


status = hint
