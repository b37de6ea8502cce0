"""Which arguments a function of the other side takes, so that a wrong number of them is told in words.

It is what the other side says of itself: who lies is not called, or is called and fails.
"""

import inspect
from collections.abc import Callable
from typing import Any

MOST_ARGUMENTS, MOST_NAME = 30, 60


class Default:
    """Stands for a default value, and prints as it does."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def arguments_of(function: Callable) -> list | None:
    """Name, kind and default of each argument, as a message holds them; None where nobody can tell."""
    try:
        found = list(inspect.signature(function).parameters.values())[: MOST_ARGUMENTS + 1]
        return [[x.name[:MOST_NAME], int(x.kind), default_of(x)] for x in found]
    except (Exception, SystemExit):  # it has no signature, or one of its own making
        return None


def default_of(x: inspect.Parameter) -> str | None:
    """How the default prints; None where there is none."""
    if x.default is x.empty:
        return None
    try:
        return repr(x.default)[:MOST_NAME]
    except (Exception, SystemExit):  # whatever its __repr__ does
        return "..."


def signature_of(told: Any) -> inspect.Signature | None:
    """The signature that the other side describes; None if there can be no such one."""
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
