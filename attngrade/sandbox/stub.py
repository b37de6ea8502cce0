"""`attncourse.grading` as a submission sees it in the sandbox: `check` only keeps the answer."""

from typing import Any

_answers: dict[str, Any] = {}


def check(name: str, answer: Any) -> None:
    """Keep the answer, which is judged after all cells have run."""
    _answers[name] = answer


def hint(*rest: Any, **options: Any) -> None:
    """Do nothing: output of a submission is not read."""


status = hint
