"""Does an answer call the course's own code? Names are looked up and nothing is run; `check` then says a word."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import nn


def course_code(answer: Any) -> str:
    """The first name of the course, beside its grading, that an answer is or calls; '' where there is none.

    What it calls is looked for in the module of the answer, which is the notebook.
    """
    left, seen, home = [answer], set(), getattr(answer, "__module__", None)
    while left:
        thing = left.pop()
        if name := _name_in_course(thing):
            return name
        if id(thing) not in seen:
            seen.add(id(thing))
            left += _parts(thing, home)
    return ""


def _name_in_course(thing: Any) -> str:
    own = isinstance(thing, type | FunctionType)
    module = getattr(thing, "__name__" if isinstance(thing, ModuleType) else "__module__", None)
    parts = str(module).split(".")
    if parts[0] != "attncourse" or parts[1:2] in ([], ["grading"]):
        return ""
    return ".".join([*parts, *[thing.__qualname__] * own])


def _parts(thing: Any, home: str | None) -> Iterator[Any]:
    """What something is made of, and what it names."""
    if isinstance(thing, nn.Module):
        yield from {type(module) for module in thing.modules()}
    elif isinstance(thing, partial):
        yield thing.func
    elif isinstance(thing, MethodType | staticmethod | classmethod):
        yield thing.__func__
    elif isinstance(thing, type) and thing.__module__ == home:
        yield from (*thing.__bases__, *vars(thing).values())
    elif isinstance(thing, FunctionType) and thing.__module__ == home:
        for cell in thing.__closure__ or ():
            with suppress(ValueError):  # nothing is in it yet
                yield cell.cell_contents
        yield from _named(thing.__code__, thing.__globals__)


def _named(code: CodeType, known: dict[str, Any]) -> Iterator[Any]:
    """What the names in a function stand for, in the functions inside it as well."""
    for name in code.co_names:
        value = sys.modules.get(name) if name.startswith("attncourse.") else known.get(name)
        yield value
        if isinstance(value, ModuleType):  # attncourse.steps
            yield from (getattr(value, other, None) for other in code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _named(inner, known)
