"""An exercise that no notebook has, small enough to see through."""

from collections.abc import Sequence
from typing import Any

from attncourse.grading.card import Card
from attncourse.grading.exercise import Exercise
from attncourse.grading.judges import Judge
from attncourse.grading.mistake import Mistake

CARD = Card(
    title="Tiny", kind="Implement", points=1, difficulty=1, minutes=1, needs="nothing",
    hints=("a", "b", "c"),
)  # fmt: skip


def tiny(judge: Judge, right: Any = None, ideas: Sequence[Mistake] = (), **more: Any) -> Exercise:
    """One point for what this judge takes for right."""
    more = {"answer": "answer"} | more
    return Exercise(name="tiny", judge=judge, right=right, ideas=ideas, card=CARD, **more)
