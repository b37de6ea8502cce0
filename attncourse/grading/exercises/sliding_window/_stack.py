"""How far a stack of windows hears, and what it keeps, in steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from attncourse.grading.mistake import Mistake


def back(window):
    """The token itself is one of the window."""
    return window - 1


def tokens(window, position):
    """What a layer keeps."""
    return position + 1 if window is None else min(window, position + 1)


@dataclass(frozen=True)
class Stack:
    """A right answer in steps; a mistake replaces some of them."""

    heard: Callable = lambda windows: windows
    reach: Callable = back
    together: Callable = sum
    stop: Callable = lambda first, position: max(0, first)
    full: Callable = lambda windows: None in windows
    nowhere: bool = False
    everything: int = 0
    keeps: Callable = tokens
    all_kept: Callable = sum
    answer: Callable = lambda first, kept, position: (first, kept)

    def __call__(self, windows, position):
        through = self.heard(windows)
        far = self.together([self.reach(w) for w in through if w is not None] or [0])
        first = self.everything if self.full(through) else self.stop(position - far, position)
        first = position if self.nowhere and None in windows else first
        kept = self.all_kept([self.keeps(w, position) for w in windows])
        return self.answer(first, kept, position)

    def but(self, says: str, **steps) -> Mistake:
        """The mistake that replaces these steps."""
        return Mistake(says, replace(self, **steps), steps)
