"""The exercises: a folder a chapter, a module an exercise, called by its name, ``"split_heads"``.

They stand in the order of their notebooks, which cards.json has.
"""

import difflib
import importlib
import re
from collections.abc import Iterable
from functools import cache

from attncourse.grading.card import cards
from attncourse.grading.exercise import Exercise

CHAPTERS = tuple(cards())


@cache
def names(chapter: str | None = None) -> tuple[str, ...]:
    """The names of all exercises, or of a chapter's, in the order in which the notebooks ask them.

    Raises:
        KeyError: there is no such chapter; the message lists the nearest ones.
    """
    if chapter is None:
        return tuple(name for one in CHAPTERS for name in names(one))
    if chapter not in CHAPTERS:
        raise KeyError(f"no chapter is called {chapter!r}; {_did_you_mean(chapter, CHAPTERS)}")
    return tuple(cards()[chapter])


def chapter_of(name: str) -> str:
    """The chapter of an exercise.

    Raises:
        KeyError: there is no such exercise; the message lists the nearest names, or those of the
            chapter that was named.
    """
    if name in CHAPTERS and name not in _chapters():
        raise KeyError(
            f"{name!r} is a chapter; name one of its exercises: {', '.join(names(name))}"
        )
    if name not in _chapters():
        raise KeyError(f"no exercise is called {name!r}; {_did_you_mean(name, names())}")
    return _chapters()[name]


@cache
def load(name: str) -> Exercise:
    """The exercise of this name.

    Raises:
        KeyError: there is none; the message lists the nearest names.
    """
    return importlib.import_module(f"{__name__}.{chapter_of(name)}.{name}").EXERCISE


@cache
def _chapters() -> dict[str, str]:
    return {name: chapter for chapter in CHAPTERS for name in names(chapter)}


def _did_you_mean(wrong: str, known: Iterable[str]) -> str:
    # Notebooks have numbers, and so had exercises once; a name has none.
    bare = re.sub(r"^\d+[._]?", "", wrong)
    near = [bare] if bare in known else difflib.get_close_matches(bare, known, n=3, cutoff=0.3)
    return f"did you mean {' or '.join(near or known)}?"
