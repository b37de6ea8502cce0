"""Which step of the right answer is the first whose numbers the answer never computes?

The answer is called once more while all tensors that it makes are recorded. The right answer is a chain of
named values (`attncourse.grading.dataflow`); a value is made where each of its numbers is found among those.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse.grading.answer import RemoteAnswer
from attncourse.grading.compare import plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import run

MOST = 1_000_000  # numbers that are kept of one call
NEAR = 1e-5


class NumbersMade(TorchDispatchMode):
    """Keeps the numbers of all tensors that operations return."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: only to keep its compiler away from here, torch would import it, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if plain(x) and self.count + x.numel() <= MOST:
                self.count += x.numel()
                self.kept.append(x.detach().flatten().double().clone())
        return out

    def sorted(self) -> Tensor:
        """All numbers, in ascending order."""
        return (
            torch.cat(self.kept).nan_to_num(7e77, 1e300, -1e300).sort().values
            if self.kept
            else torch.empty(0)
        )


def missing_step(asked: Asked) -> str:
    """The last value of the chain that is made, and the first behind it that is not."""
    place = first_missing(asked)
    if place is None:
        return ""
    done = asked.right[place - 1].called
    if place == len(asked.right):
        return f"{_begin(done)} are right; look at what is made of them."
    return (
        f"{_begin(done)} are among the numbers that the answer computes; "
        f"{asked.right[place].called}, the next step, are not: look between the two."
    )


def _begin(called: str) -> str:
    return called[:1].upper() + called[1:]


def first_missing(asked: Asked) -> int | None:
    """The place of the first value behind the last one that is made; None where nothing is known of them."""
    here = not isinstance(asked.answer, RemoteAnswer) and callable(asked.answer)
    if not asked.right or not here or asked.largest is None:
        return None
    args = [x.clone() if isinstance(x, Tensor) else x for x in asked.largest.args]
    with torch.no_grad(), NumbersMade() as recorder:
        run(lambda: asked.answer(*args, **asked.largest.kwargs))
    made = recorder.sorted()
    there = [found(value.number, made) for value in asked.right]
    return len(there) - there[::-1].index(True) if True in there else None


def found(value: Any, made: Tensor) -> bool:
    """Is each number of this value among those that were made?"""
    if not plain(value) or not len(made):
        return False
    numbers = value.double().flatten().nan_to_num(7e77, 1e300, -1e300).unique()
    numbers = numbers[(numbers != 0) & (numbers.abs() < 1e77)]
    if len(numbers) < 3:
        return False
    margin = NEAR * (1 + numbers.abs())
    at = torch.searchsorted(made, numbers - margin)
    inside = made[at.clamp(max=len(made) - 1)] <= numbers + margin
    return bool((inside & (at < len(made))).all())
