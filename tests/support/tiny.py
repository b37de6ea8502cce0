"""An exercise that no notebook has, small enough to see through."""

from collections.abc import Iterable, Mapping
from typing import Any

from attncourse.grading.card import Card
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Judge, Mistakes

CARD = Card(
    title="Tiny",
    kind="Implement",
    points=1,
    difficulty=1,
    minutes=1,
    needs="nothing",
    hints=("a", "b", "c"),
)


def tiny(
    judge: Judge,
    accepted: Mapping[str, Any] | None = None,
    mistakes: Iterable[Mistake] = (),
    answer: str = "answer",
) -> Exercise:
    """One point for what this judge takes for right."""
    return Exercise(
        name="tiny",
        answer=answer,
        judge=judge,
        accepted=Accepted(accepted or {}),
        mistakes=Mistakes(mistakes),
        card=CARD,
    )
