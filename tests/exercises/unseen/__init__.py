"""Answers that no exercise lists among its own: wrong ones with the words that name the mistake, and right ones.

A module a chapter, ``unseen/masks.py``; `test_unseen.py` walks them all.

    @wrong("find_the_leak", "does not depend on the sample")
    def looks_at_one_sample(layer, x): ...

    wrong("sharpness", "the logarithm of base 10", 3.0)
    right("sharpness", 7)
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_DECORATES = object()


@dataclass(frozen=True)
class Entry:
    """One answer, and what is wanted of its verdict.

    Args:
        exercise: its name.
        answer: what is judged.
        made: ``answer()`` makes what is judged, only then; for what is dear, such as a trained model.
        passes: is it right?
        says: what the student must read, each of them.
        never: what must not be said.
        where: it stands, for whoever looks for it.
    """

    exercise: str
    answer: Any
    made: bool
    passes: bool
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    where: str = ""


ENTRIES: dict[str, list[Entry]] = {}  # by the name of the module


def wrong(exercise: str, *says: Any, never: tuple[str, ...] | str = (), made: bool = False) -> Any:
    """Add a wrong answer: the one decorated, or the last argument if that is no text.

    Args:
        exercise: its name.
        says: words that name the true mistake; what the student reads must contain each. Without any it must only fail.
        never: words that would be false.
        made: the decorated function makes the answer.
    """
    *words, answer = (*says, _DECORATES) if not says or isinstance(says[-1], str) else says
    never = (never,) if isinstance(never, str) else never
    return _add(exercise, answer, made=made, passes=False, says=tuple(words), never=never)


def right(exercise: str, answer: Any = _DECORATES, *, made: bool = False) -> Any:
    """Add a right answer: the one decorated, or ``answer``."""
    return _add(exercise, answer, made=made, passes=True)


def _add(exercise: str, answer: Any, **wanted: Any) -> Callable | None:
    frame = sys._getframe(2)  # of the module that lists it
    module, line = frame.f_globals["__name__"].rpartition(".")[2], frame.f_lineno

    def register(answer: Any) -> Any:
        named = f"{module}.py:{line} {getattr(answer, '__name__', repr(answer))[:60]}"
        ENTRIES.setdefault(module, []).append(Entry(exercise, answer, where=named, **wanted))
        return answer

    if answer is _DECORATES:
        return register
    register(answer)  # a tensor, it may be: no truth is asked of it
    return None
