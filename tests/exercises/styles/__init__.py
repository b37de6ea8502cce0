"""Right answers of the exercises, in the styles that people write.

A module a chapter, ``styles/multi_head.py``; `of` collects them.

    @style("split_heads")
    def view_and_transpose(x, num_heads): ...

    style("sharpness", 7.0, name="float")
"""

import importlib
import pkgutil
from collections import defaultdict
from functools import cache
from typing import Any

_DECORATES = object()
_STYLES: dict[str, dict[str, Any]] = defaultdict(dict)  # exercise -> style -> answer


def style(exercise: str, answer: Any = _DECORATES, *, name: str = "") -> Any:
    """Register a right answer of an exercise: the function or class decorated, or ``answer``.

    Args:
        exercise: its name.
        answer: a number, a tensor, a model: what is no definition.
        name: of the style; a function or class has its own.

    Raises:
        ValueError: the style has no name, or one that is taken.
    """
    if answer is _DECORATES:
        return lambda defined: _add(exercise, defined, name or defined.__name__)
    _add(exercise, answer, name)
    return None


def _add(exercise: str, answer: Any, name: str) -> Any:
    if not name:
        raise ValueError(f"a style of {exercise} has no name; add name=...")
    if name in _STYLES[exercise]:
        raise ValueError(f"two styles of {exercise} are called {name}; rename one")
    _STYLES[exercise][name] = answer
    return answer


def of(exercise: str) -> dict[str, Any]:
    """The right answers of an exercise by the names of their styles."""
    _read()
    return dict(_STYLES.get(exercise, {}))


def exercises() -> list[str]:
    """The names of the exercises that have styles here."""
    _read()
    return list(_STYLES)


@cache
def _read() -> None:
    """Import every chapter, once."""
    for found in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{found.name}")
