"""A wrong answer that people give, with the sentence that they should read."""

from typing import Any, NamedTuple


class Mistake(NamedTuple):
    """A wrong answer with its sentence; an *idea* where an exercise lists it."""

    says: str
    answer: Any
