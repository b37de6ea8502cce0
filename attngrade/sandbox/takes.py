"""Signatures of the other side's functions, so that a wrong number of arguments is reported in words.

The other side reports its own signatures. A false one does no harm: the function is not called, or the call fails.
"""

import inspect
from collections.abc import Callable
from typing import Any

MOST_ARGUMENTS, MOST_NAME = 30, 60


class Default:
    """Placeholder for a default value, with the same repr."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def arguments_of(function: Callable) -> list | None:
    """Name, kind and default of each parameter, as part of a message; None where there is no signature."""
    try:
        found = list(inspect.signature(function).parameters.values())[: MOST_ARGUMENTS + 1]
        return [[x.name[:MOST_NAME], int(x.kind), default_of(x)] for x in found]
    except (Exception, SystemExit):  # no signature, or a broken one
        return None


def default_of(x: inspect.Parameter) -> str | None:
    """The repr of a default; None where there is no default."""
    if x.default is x.empty:
        return None
    try:
        return repr(x.default)[:MOST_NAME]
    except (Exception, SystemExit):  # its __repr__ may do anything
        return "..."


def signature_of(told: Any) -> inspect.Signature | None:
    """The signature in a description; None if the description is impossible."""
    if not isinstance(told, list) or len(told) > MOST_ARGUMENTS:
        return None
    try:
        return inspect.Signature([_argument(*x) for x in told])
    except (TypeError, ValueError):
        return None


def _argument(name: Any, kind: Any, default: Any) -> inspect.Parameter:
    known = isinstance(name, str) and len(name) <= MOST_NAME and type(kind) is int
    if not known or not (default is None or isinstance(default, str) and len(default) <= MOST_NAME):
        raise ValueError
    has = inspect.Parameter.empty if default is None else Default(default)
    return inspect.Parameter(name, inspect._ParameterKind(kind), default=has)
