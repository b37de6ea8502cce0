"""How large the tensors are that a function makes on its way, wherever it runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NO_TENSORS = {int, float, bool, str, type(None), torch.dtype, torch.device}


class Allocations(NamedTuple):
    """What a call has made, in numbers (not bytes) of the memory that a tensor stands on.

    Args:
        largest: of all results of operations, views of the inputs included.
        new: of those whose memory is not that of an input.
        how: the operation that made the largest new one, and its shape.
        total: of all results together, but for views of what an operation was given.
    """

    largest: int = 0
    new: int = 0
    how: str = ""
    total: int = 0


class AllocationRecorder(TorchDispatchMode):
    """Remembers the largest tensors that operations return."""

    def __init__(self, inputs: tuple):
        super().__init__()
        self.known = memories(inputs)
        self.made = Allocations()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: only to keep its compiler away from here, torch would import it, which takes seconds."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = memories((*args, *kwargs.values()) if kwargs else args)
        for x in out if isinstance(out, tuple | list) else (out,):
            if stored(x):
                self.see(x, func, given)
        return out

    def see(self, x: Tensor, func: Any, given: set[int]) -> None:
        """Take one result into account."""
        memory = x.untyped_storage()
        numbers = memory.nbytes() // x.element_size()
        largest, new, how, total = self.made
        if numbers > new and memory.data_ptr() not in self.known:
            name = getattr(func, "__name__", str(func)).split(".")[0]
            new, how = numbers, f"{name} makes one of shape {tuple(x.shape)}"
        total += x.numel() if memory.data_ptr() not in given else 0
        self.made = Allocations(max(numbers, largest), new, how, total)


def stored(x: Any) -> bool:
    """Is this a plain tensor, whose numbers stand somewhere?"""
    return isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta


def memories(objects: Any) -> set[int]:
    """Where the plain tensors among these objects, and in their lists, keep their numbers."""
    found: set[int] = set()
    _collect(objects, found)
    return found


def _collect(x: Any, found: set[int]) -> None:
    """By hand: the trees of torch take longer than most operations that are recorded."""
    if isinstance(x, Tensor):
        if stored(x):
            found.add(x.untyped_storage().data_ptr())
    elif isinstance(x, dict):
        _collect(tuple(x.values()), found)
    elif isinstance(x, tuple | list):
        for part in x:
            if type(part) not in NO_TENSORS:  # most are sizes and places
                _collect(part, found)


def made_by(function: Callable, *args: Any) -> Allocations:
    """Call the function without gradients and record what it makes; what a layer stores is not made."""
    layer = isinstance(function, nn.Module)
    held = [*function.parameters(), *function.buffers()] if layer else []
    with torch.no_grad(), AllocationRecorder((args, held)) as recorder:
        function(*args)
    return recorder.made
