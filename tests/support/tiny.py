"""An exercise that no notebook has, small enough to see through."""

from collections.abc import Sequence
from typing import Any

from attncourse.grading.card import Card
from attncourse.grading.exercise import Exercise
from attncourse.grading.inputs import sized_cases
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


def attention_cases(seed: int) -> list:
    """Three calls with a query, a key and a value."""
    calls = [
        ("3 queries, 4 keys", (2, 3, 5, 4, 6, 7), 1),
        ("large scores", (1, 2, 4, 5, 3, 6), 300),
        ("1 key", (2, 2, 3, 1, 4, 5), 1),
    ]
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)
