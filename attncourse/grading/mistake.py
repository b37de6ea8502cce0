"""A wrong answer that people give, with the sentence that they should read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, written by hand (an *idea*) or made of a right one by changing a step.

    Args:
        says: the sentence.
        answer: the wrong answer.
        steps: of a right `Recipe`, or the value of a right `Dataflow`: what ``answer`` changes.
    """

    says: str
    answer: Any
    steps: dict[str, Callable] = field(default_factory=dict, repr=False)
