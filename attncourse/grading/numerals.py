"""Numbers as people write them: of Python, numpy or torch, alone or in lists."""

import numbers
from typing import Any

import torch

from attncourse.grading.compare import Close, plain

DEEPEST = 4  # a list may hold itself


def opened(answer: Any, depth: int = DEEPEST) -> Any:
    """Arrays, tensors and lists as nested tuples of Python numbers; a single number bare."""
    if plain(answer) or type(answer).__name__ == "ndarray" and answer.dtype.kind in "iufb":
        answer = answer.tolist()
    if not isinstance(answer, list | tuple | range) or not depth:
        return answer
    several = tuple(opened(x, depth - 1) for x in answer)
    return several[0] if len(several) == 1 else several


def as_tensor(answer: Any) -> Any:
    """The numbers of a list or an array as a tensor; anything else as itself."""
    several = type(answer).__name__ == "ndarray" or isinstance(answer, list | tuple)
    try:
        return torch.tensor(answer) if several else answer
    except (TypeError, ValueError, RuntimeError):  # no numbers, or rows of many lengths
        return answer


def observe_number(answer: Any, rtol: float) -> Any:
    """A number or several numbers as a tensor; anything else as itself."""
    try:
        return Close(torch.tensor(_floats(opened(answer)), dtype=torch.float64), rtol)
    except (TypeError, ValueError, OverflowError):  # no number, rows of many lengths, 10**400
        return answer


def whole(found: Any) -> Any:
    """A number that is whole, but for rounding, as an int; anything else as itself."""
    if isinstance(found, int) or not isinstance(found, numbers.Real) or found - found != 0:
        return found
    number = float(found)
    count = round(number)
    return count if abs(number - count) <= min(1e-9 * max(1, abs(count)), 1e-3) else found


def _floats(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_floats, found))
    if isinstance(found, bool) or not isinstance(found, numbers.Real):
        raise TypeError
    return float(found)
