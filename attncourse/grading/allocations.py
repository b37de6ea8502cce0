"""How large the tensors are that a function makes on its way, wherever it runs."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Allocations(NamedTuple):
    """What a call has made, in numbers (not bytes) of the memory that a tensor stands on.

    Args:
        largest: of all results of operations, views of the inputs included.
        new: of those whose memory is not that of an input.
        how: the operation that made the largest new one, and its shape.
    """

    largest: int = 0
    new: int = 0
    how: str = ""


class AllocationRecorder(TorchDispatchMode):
    """Remembers the largest tensors that operations return."""

    def __init__(self, inputs: tuple):
        super().__init__()
        given = [x for x in inputs if isinstance(x, Tensor)]
        self.known = {x.untyped_storage().data_ptr() for x in given}
        self.made = Allocations()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta:
                self.see(x, func)
        return out

    def see(self, x: Tensor, func: Any) -> None:
        """Take one result into account."""
        memory = x.untyped_storage()
        numbers = memory.nbytes() // x.element_size()
        _, new, how = self.made
        if numbers > new and memory.data_ptr() not in self.known:
            name = getattr(func, "__name__", str(func)).split(".")[0]
            new, how = numbers, f"{name} makes one of shape {tuple(x.shape)}"
        self.made = Allocations(max(numbers, self.made.largest), new, how)


def made_by(answer: Any, *args: Any) -> Allocations:
    """Call the answer without gradients and watch what it makes; an answer far away is watched there."""
    if hasattr(answer, "far_made_by"):
        return Allocations(*answer.far_made_by(*args))
    with torch.no_grad(), AllocationRecorder(args) as watch:
        answer(*args)
    return watch.made
