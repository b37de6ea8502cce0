"""Sums that grow with the text are kept in float32 at least, whatever dtype comes in."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce, wraps
from typing import Any

import torch
from torch import Tensor


def sums_in_float32(function: Callable) -> Callable:
    """Let a function of queries, keys and values compute in float32, or in the widest dtype of its tensors.

    A sum over thousands of tokens overflows float16, whose largest number is 65,504, and bfloat16 has too few digits for
    it: from 256 on, 1 more is rounded away. Also under autocast, which would narrow each product again.

    Args:
        function: called with queries first; returns an output, or a tuple that begins with one.

    Returns: the function; its output has the dtype of the queries, and what comes behind it, as a state, stays wide.

    Cost: a wider copy of each narrow tensor.
    Source: micikevicius2018, section 3.3.
    """

    @wraps(function)
    def widened(*args: Any, **options: Any) -> Any:
        query = args[0] if args else options["query"]
        dtypes = [x.dtype for x in (*args, *options.values()) if _is_float(x)]
        widest = reduce(torch.promote_types, dtypes, torch.float32)
        args = tuple(x.to(widest) if _is_float(x) else x for x in args)
        options = {name: x.to(widest) if _is_float(x) else x for name, x in options.items()}
        with _without_autocast(query.device.type):
            result = function(*args, **options)
        if isinstance(result, tuple):
            return result[0].to(query.dtype), *result[1:]
        return result.to(query.dtype)

    return widened


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _is_float(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _without_autocast(device: str) -> Any:
    """Only where it is on: so nothing of it is traced elsewhere, and devices that do not know it are not asked."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
