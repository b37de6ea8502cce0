"""How large a tensor an answer makes on its way, judged beside its results."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse.grading.exercise import Calls


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest piece of memory holds that an operation returned."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor):
                held = x.untyped_storage().nbytes() // x.element_size()
                self.numbers = max(self.numbers, held)
        return out


@dataclass(frozen=True)
class Thrifty:
    """Judges the results like `Calls`, and ``memory(answer)``: True, or what was too large."""

    calls: Calls
    title: str
    memory: Callable

    def observe(self, answer, seed: int) -> dict:
        seen = self.calls.observe(answer, seed)
        return seen | {self.title: self.memory(answer)} if callable(answer) else seen

    def expected(self, seed: int) -> dict:
        return self.calls.expected(seed) | {self.title: True}
