"""The card of an exercise: its title, what it asks of a student, and its hints.

Cards and hints are written in the master notebooks; `make exercises` copies them to cards.json,
which the package carries: by chapter, in the order of the notebooks.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("cards.json")


@dataclass(frozen=True)
class Card:
    """What a student reads of an exercise beside its statement.

    Args:
        title: its heading, without the number.
        kind: Implement, Repair, Predict, Measure or Train.
        points: for a right answer.
        difficulty: from 1 to 5.
        minutes: about how many it takes.
        needs: what to read before, in Markdown.
        hints: three, of increasing strength, in Markdown.
    """

    title: str
    kind: str
    points: int
    difficulty: int
    minutes: int
    needs: str
    hints: tuple[str, ...]


def card_of(name: str) -> Card:
    """The card of the exercise of this name.

    Raises:
        KeyError: no master notebook had one when the cards were last written.
    """
    for found in cards().values():
        if name in found:
            return Card(**found[name] | {"hints": tuple(found[name]["hints"])})
    raise KeyError(
        f"expected a card of {name} in {FILE.name}; got none; write it in its notebook in "
        "exercises/solutions/, then run: make exercises"
    )


@cache
def cards() -> dict[str, dict[str, dict]]:
    """Chapters, exercises and what their cards say, in the order of the notebooks."""
    return json.loads(FILE.read_text(encoding="utf-8"))
