"""The exercises: one module each, ``t03_split_heads`` for ``"03.split_heads"``."""

import difflib
import importlib.util
import pkgutil
import re
from functools import cache

from attncourse.grading.exercise import Exercise

NAME = re.compile(r"\d\d\.\w+")


@cache
def names() -> tuple[str, ...]:
    """The names of all exercises, in the order in which the notebooks ask them."""
    found = [m.name[1:].replace("_", ".", 1) for m in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda name: (name[:2], load(name).number)))


@cache
def load(name: str) -> Exercise:
    """The exercise of this name.

    Raises:
        KeyError: there is none; the message lists the nearest names.
    """
    module = f"{__name__}.t{name.replace('.', '_', 1)}"
    if not NAME.fullmatch(name) or importlib.util.find_spec(module) is None:
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.3) or names()
        raise KeyError(f"no exercise is called {name!r}; did you mean {' or '.join(near)}?")
    return importlib.import_module(module).EXERCISE
