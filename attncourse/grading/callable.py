"""Can an answer be called as the exercise calls it? Known without calling it, so it is said once and in words."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torch import Tensor

from attncourse.grading.observe import Case

signature = lru_cache(inspect.signature)  # it takes as long as many a call


def no_function(answer: Any, spec: Callable, cases: list[Case]) -> str:
    """Why an answer cannot be called like the definition in any of the cases; '' where it can be."""
    if not callable(answer) or isinstance(answer, Tensor | tuple | list):
        kind = type(answer).__name__
        return f"expected a function, got {kind}; pass the function itself, uncalled"
    if any(takes(answer, x.args, x.kwargs) for x in cases):
        return ""
    most = max(cases, key=lambda x: len(x.args) + len(x.kwargs))
    names = ", ".join([*list(signature(spec).parameters)[: len(most.args)], *most.kwargs])
    return f"it is called with ({names}), but yours takes {takes_what(answer)}"


def takes(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> bool:
    """May it be called with these arguments, as far as can be known without calling it?"""
    try:
        inspect.signature(answer).bind(*args, **kwargs)
    except TypeError:
        return False
    except Exception:  # it has no signature, or one that cannot be told
        return True
    return True


def takes_what(answer: Callable) -> str:
    """The arguments of a function, as it was written."""
    return f"({', '.join(map(str, inspect.signature(answer).parameters.values()))})"
