"""Whether an answer takes the arguments of the exercise, by its signature alone."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torch import Tensor

from attncourse.grading.observe import Case

signature = lru_cache(inspect.signature)  # inspecting takes longer than many a call


def no_function(answer: Any, spec: Callable, cases: list[Case]) -> str:
    """Why an answer cannot take the arguments of any case; '' where it can."""
    if not callable(answer) or isinstance(answer, Tensor | tuple | list):
        kind = type(answer).__name__
        return f"expected a function, got {kind}; pass the function itself, uncalled"
    if any(takes(answer, x.args, x.kwargs) for x in cases):
        return ""
    most = max(cases, key=lambda x: len(x.args) + len(x.kwargs))
    names = ", ".join([*list(signature(spec).parameters)[: len(most.args)], *most.kwargs])
    return f"it is called with ({names}), but yours takes {takes_what(answer)}"


def takes(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> bool:
    """False if the signature does not fit these arguments."""
    try:
        inspect.signature(answer).bind(*args, **kwargs)
    except TypeError:
        return False
    except Exception:  # no signature, or one that cannot be read
        return True
    return True


def takes_what(answer: Callable) -> str:
    """The parameters of a function, as written in its definition."""
    return f"({', '.join(map(str, inspect.signature(answer).parameters.values()))})"
