"""Sizes of the tensors that a call creates, in this process or in another."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NO_TENSORS = {int, float, bool, str, type(None), torch.dtype, torch.device}


class Allocations(NamedTuple):
    """Sizes of the tensors that a call created, in elements (not bytes) of their storage.

    Args:
        largest: size of the largest result of an operation, views of the inputs included.
        new: size of the largest result whose storage is no input's.
        how: the operation that created the largest new result, and its shape.
        total: sum of all results, but for views of an operation's arguments.
    """

    largest: int = 0
    new: int = 0
    how: str = ""
    total: int = 0


class Recorder(TorchDispatchMode):
    """A dispatch mode for which torch does not first import its compiler, which takes seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class AllocationRecorder(Recorder):
    """Records the sizes of the tensors that operations return."""

    def __init__(self, inputs: tuple):
        super().__init__()
        self.known = memories(inputs)
        self.made = Allocations()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = memories((*args, *kwargs.values()) if kwargs else args)
        for x in out if isinstance(out, tuple | list) else (out,):
            if stored(x):
                self.see(x, func, given)
        return out

    def see(self, x: Tensor, func: Any, given: set[int]) -> None:
        """Record one result."""
        memory = x.untyped_storage()
        numbers = memory.nbytes() // x.element_size()
        largest, new, how, total = self.made
        if numbers > new and memory.data_ptr() not in self.known:
            name = getattr(func, "__name__", str(func)).split(".")[0]
            new, how = numbers, f"{name} makes one of shape {tuple(x.shape)}"
        total += x.numel() if memory.data_ptr() not in given else 0
        self.made = Allocations(max(numbers, largest), new, how, total)


def stored(x: Any) -> bool:
    """True for a strided tensor with storage."""
    return isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta


def memories(objects: Any) -> set[int]:
    """Storage addresses of the strided tensors in these objects, however nested."""
    found: set[int] = set()
    _collect(objects, found)
    return found


def _collect(x: Any, found: set[int]) -> None:
    """Written by hand: torch.utils._pytree takes longer than most recorded operations."""
    if isinstance(x, Tensor):
        if stored(x):
            found.add(x.untyped_storage().data_ptr())
    elif isinstance(x, dict):
        _collect(tuple(x.values()), found)
    elif isinstance(x, tuple | list):
        for part in x:
            if type(part) not in NO_TENSORS:  # most arguments are sizes and indices
                _collect(part, found)


def made_by(function: Callable, *args: Any) -> Allocations:
    """Sizes recorded in a call without gradients; parameters and buffers count as inputs."""
    layer = function if isinstance(function, nn.Module) else nn.Identity()
    held = [*layer.parameters(), *layer.buffers()]
    with torch.no_grad(), AllocationRecorder((args, held)) as recorder:
        function(*args)
    return recorder.made
