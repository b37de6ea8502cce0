"""What sentences claim: patterns, and functions that derive each claim again from what an answer does.

A claim is a pattern and a function ``(match, evidence) -> True, False or None``; None where the answer cannot be
observed in a way that decides. For a new sentence of an explainer, add a claim to the module of its subject.
"""

import re
from collections.abc import Callable

CLAIMS: list[tuple[re.Pattern, Callable]] = []
NUMBER = r"(-?[\d.,]+(?:e[-+]?\d+)?|-?inf|nan)"


def claim(pattern: str) -> Callable:
    """Add a claim to the table."""

    def register(check):
        CLAIMS.append((re.compile(pattern), check))
        return check

    return register


def number(text: str) -> float:
    """A number as sentences write it."""
    return float(text.replace(",", "").rstrip("."))


def near(a: float, b: float, by: float = 0.01) -> bool:
    """Equal but for the digits that a sentence leaves out."""
    return a == b or abs(a - b) <= by * max(abs(a), abs(b)) or a != a and b != b
