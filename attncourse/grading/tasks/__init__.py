"""The exercises: one module each, ``t03_split_heads`` for ``"03.split_heads"``."""

import difflib
import importlib
import pkgutil
from functools import cache

from attncourse.grading.exercise import Exercise


@cache
def names() -> tuple[str, ...]:
    """The names of all exercises, by chapter and then in the order in which they are met."""
    found = [m.name[1:].replace("_", ".", 1) for m in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found))


@cache
def load(name: str) -> Exercise:
    """The exercise of this name.

    Raises:
        KeyError: there is none; the message lists the nearest names.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.3) or names()
        raise KeyError(f"no exercise is called {name!r}; did you mean {' or '.join(near)}?")
    module = importlib.import_module(f"{__name__}.t{name.replace('.', '_', 1)}")
    return module.EXERCISE
