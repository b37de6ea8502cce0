"""Answers that are or call the course's own code, found by names; `check` refuses them."""

import dis
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import nn

from attncourse.grading.verdict import Verdict

CACHED = type(lru_cache(int))
OF_MODULES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")


def refused(name: str, points: int, answer: Any) -> Verdict | None:
    """The verdict on an answer that is or calls the course's own code; None on any other."""
    found = course_code(answer)
    if not found:
        return None
    why = (
        f"this answer uses {found}, which is the course's own code. Write the steps yourself: they "
        "are what the exercise is for, and where a class is graded that code is missing."
    )
    return Verdict(name, "failed", 0, points, (why,))


def course_code(answer: Any) -> str:
    """The first name of the course, apart from ``grading``, that an answer is or calls; else ''.

    Calls are followed within the module of the answer, which is the notebook.
    """
    while isinstance(answer, partial):
        answer = answer.func
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
    return ".".join([*parts, *([thing.__qualname__] if own else [])])


def _parts(thing: Any, home: str | None) -> Iterator[Any]:
    """The objects inside an object, and those that its code names."""
    if isinstance(thing, nn.Module):
        yield from {type(module) for module in thing.modules()}
        yield from (x for x in vars(thing).values() if isinstance(x, FunctionType))
    elif isinstance(thing, partial):
        yield thing.func
    elif isinstance(thing, MethodType | staticmethod | classmethod):
        yield thing.__func__
    elif isinstance(thing, property):
        yield thing.fget
    elif isinstance(thing, CACHED):
        yield thing.__wrapped__
    elif isinstance(thing, type) and thing.__module__ == home:
        yield from (*thing.__bases__, *vars(thing).values())
    elif isinstance(thing, FunctionType) and thing.__module__ == home:
        for cell in thing.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                yield cell.cell_contents
        yield from (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values())
        yield from _loaded(thing.__code__, thing.__globals__)
    elif type(thing).__module__ == home:
        yield type(thing)


def _loaded(code: CodeType, known: dict[str, Any]) -> Iterator[Any]:
    """The objects that a function, and the functions inside, load by a global name or import.

    An attribute counts only on a module that was loaded just before: ``self.attention`` is not the
    ``attention`` that the notebook has imported.
    """
    before = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            before = known.get(step.argval)
        elif step.opname == "IMPORT_NAME":
            before = sys.modules.get(step.argval)
        elif isinstance(before, ModuleType) and step.opname in OF_MODULES:
            found = getattr(before, step.argval, None)
            yield found
            # Several names may follow one import.
            before = before if step.opname == "IMPORT_FROM" else found
            continue
        elif step.opname.startswith(("STORE", "PUSH", "CACHE", "EXTENDED")):
            continue
        else:
            before = None
            continue
        yield before
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _loaded(inner, known)
