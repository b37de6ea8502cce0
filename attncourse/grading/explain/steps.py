"""Which step of the right answer is the first whose numbers the answer never computes?

The answer is called once more while all tensors that it makes are recorded. The right answer is a chain of
named values (`attncourse.grading.dataflow`); a value is made where each of its numbers is found among those.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse.grading.answer import RemoteAnswer
from attncourse.grading.compare import Raised, plain, same
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import run

MOST = 1_000_000  # numbers that are kept of one call
NEAR = 1e-5
FEWEST = 3  # numbers that can tell a value
ALL_MADE = "look at what is made of them, and returned."


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
    """The last value of the chain that is made, and the first missing one."""
    gap = _gap(asked)
    if gap is None:
        return ""
    done, place = gap
    if place == len(asked.right):
        return f"{_begin(asked.right[done].called)} are among the numbers that the answer computes; {ALL_MADE}"
    says = f"{_begin(asked.right[done].called)} are among the numbers that the answer computes"
    missing = asked.right[place].called
    if place == done + 1:
        return f"{says}; {missing}, the next step, are not: look between the two."
    return f"{says}, but {missing} are not: look at how they are made."


def _begin(called: str) -> str:
    return called[:1].upper() + called[1:]


def first_missing(asked: Asked) -> int | None:
    """The place of the first missing value; None where nothing is known of them."""
    gap = _gap(asked)
    return gap and gap[1]


def _gap(asked: Asked) -> tuple[int, int] | None:
    """The places of the last value that is made and of the first missing one; None without any.

    A value is not missing where one behind it is made that needs it: the answer goes another way.
    """
    here = not isinstance(asked.answer, RemoteAnswer) and callable(asked.answer)
    if not asked.right or not here or asked.largest is None:
        return None
    args = [x.clone() if isinstance(x, Tensor) else x for x in asked.largest.args]
    with torch.no_grad(), NumbersMade() as recorder:
        run(lambda: asked.answer(*args, **asked.largest.kwargs))
    made = recorder.sorted()
    there = [found(value.number, made) for value in asked.right]
    if True not in there:
        return None
    last = len(there) - 1 - there[::-1].index(True)
    apart = (k for k in range(last) if there[k] is False and not _needed(asked, k, there))
    behind = (k for k in range(last + 1, len(there)) if there[k] is False)
    return last, next(apart, next(behind, len(there)))


def _needed(asked: Asked, place: int, there: list[bool | None]) -> bool:
    """Is this value found in another place, or does a value that is made behind it depend on it?"""
    called, behind = asked.right[place].called, range(place + 1, len(there))
    changed = getattr(asked.exercise.right, "changed", None)
    if (
        changed is None
        or not isinstance(asked.right[place].number, Tensor)
        or any(x.called == called for x, t in zip(asked.right, there, strict=True) if t)
    ):
        return True
    others = run(lambda: changed(called).values(*asked.largest.args, **asked.largest.kwargs))
    if isinstance(others, Raised):
        return True  # nothing behind can be made of other numbers
    return any(there[k] and not same(asked.right[k].number, others[k].number) for k in behind)


def found(value: Any, made: Tensor) -> bool | None:
    """Is each number of this value among those that were made? None where too few tell it."""
    if not plain(value) or not len(made):
        return False
    numbers = value.double().flatten().nan_to_num(7e77, 1e300, -1e300).unique()
    numbers = numbers[(numbers != 0) & (numbers.abs() < 1e77)]
    if len(numbers) < FEWEST:
        return None
    margin = NEAR * (1 + numbers.abs())
    at = torch.searchsorted(made, numbers - margin)
    inside = made[at.clamp(max=len(made) - 1)] <= numbers + margin
    return bool((inside & (at < len(made))).all())
