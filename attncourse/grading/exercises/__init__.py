"""The exercises: a folder a chapter, a module an exercise; ``multi_head/split_heads`` is ``"03.split_heads"``."""

import difflib
import importlib
import pkgutil
import re
from functools import cache

from attncourse.grading.exercise import Exercise

CHAPTERS = (
    "dot_product",
    "masks",
    "multi_head",
    "kv_cache",
    "multi_query",
    "grouped_query",
    "latent",
)
NAME = re.compile(r"\d\d\.\w+")


@cache
def _modules() -> dict[str, str]:
    """The module of every exercise; one that begins with a line is a part of another."""
    return {
        f"{number:02}.{module.name}": f"{__name__}.{chapter}.{module.name}"
        for number, chapter in enumerate(CHAPTERS, start=1)
        for module in pkgutil.iter_modules([f"{__path__[0]}/{chapter}"])
        if not module.name.startswith("_")
    }


@cache
def names() -> tuple[str, ...]:
    """The names of all exercises, in the order in which the notebooks ask them."""
    return tuple(sorted(_modules(), key=lambda name: (name[:2], load(name).number)))


@cache
def load(name: str) -> Exercise:
    """The exercise of this name.

    Raises:
        KeyError: there is none; the message lists the nearest names.
    """
    if name not in _modules():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.3) or names()
        raise KeyError(f"no exercise is called {name!r}; did you mean {' or '.join(near)}?")
    return importlib.import_module(_modules()[name]).EXERCISE
