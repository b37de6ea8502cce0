"""What an answer does in the calls of its judge, observed again and apart from the judge and its explainers."""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attncourse.grading import exercise as grading

NEAR = 2e-3


@dataclass(frozen=True)
class Call:
    """One call of an answer, and of the definition in double precision.

    Args:
        label: of the case.
        given: the arguments, by name.
        right, seen: results, or the error.
        changed: the names of tensors that are not what they were.
    """

    label: str
    given: dict[str, Any]
    right: Any
    seen: Any
    changed: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        """Is what came back not the right result?"""
        if isinstance(self.right, BaseException):
            return not isinstance(self.seen, BaseException)
        return not alike(self.right, self.seen)


class Evidence:
    """The calls of an answer on the inputs of a seed; none where the judge does not list cases and a definition.

    Args:
        exercise: judged.
        answer: to observe.
        seed: of `Exercise.grade`.
    """

    def __init__(self, exercise: Any, answer: Callable, seed: int):
        judge = getattr(exercise.judge, "calls", exercise.judge)
        self.spec, self.cases = getattr(judge, "spec", None), getattr(judge, "cases", None)
        self.names = tuple(getattr(exercise, "results", ()) or getattr(judge, "names", ()))
        self.exercise, self.answer, self.given = exercise, answer, seed
        self.seed = seed + getattr(grading, "SEEDS", 0)
        self.known = callable(self.spec) and callable(self.cases)

    def of(self, answer: Callable) -> "Evidence":
        """The same calls of another answer."""
        return Evidence(self.exercise, answer, self.given)

    @cached_property
    def calls(self) -> list[Call]:
        """Every call, or none where a case has no plain arguments."""
        if not self.known:
            return []
        return [self._called(case) for case in self.cases(self.seed)]

    @property
    def wrong(self) -> list[Call]:
        """The calls whose result is wrong."""
        return [call for call in self.calls if call.wrong]

    def labelled(self, label: str) -> Call | None:
        """The call of a case."""
        return next((call for call in self.calls if call.label == label), None)

    def again(self, call: Call, **changed: Any) -> tuple[Any, Any]:
        """Right and seen results with some arguments replaced."""
        given = call.given | changed
        return result(self.spec, double(given)), result(self.answer, copied(given))

    def gradients(self, call: Call, weight: Callable[[Tensor], Tensor]) -> tuple[dict, dict]:
        """The gradients of a weighted sum of the results, by the names of the arguments: right and seen."""
        return tuple(
            _gradients(f, given, weight)
            for f, given in ((self.spec, double(call.given)), (self.answer, copied(call.given)))
        )

    def _called(self, case: Any) -> Call:
        names = list(inspect.signature(self.spec).parameters)
        given = dict(zip(names, case.args, strict=False)) | case.kwargs
        mine = copied(given)
        seen = result(self.answer, mine)
        changed = [k for k, x in mine.items() if isinstance(x, Tensor) and not _kept(x, given[k])]
        return Call(case.label, given, result(self.spec, double(given)), seen, tuple(changed))


def result(f: Callable, given: dict[str, Any]) -> Any:
    """What a call returns, or its error."""
    try:
        # By place: an answer may call its arguments as it likes.
        found = f(*given.values())
    except Exception as error:
        return error
    return tuple(found) if isinstance(found, list) else found


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, tensors copied."""
    return {k: x.clone() if isinstance(x, Tensor) else x for k, x in given.items()}


def double(given: dict[str, Any]) -> dict[str, Any]:
    """Copies in double precision."""
    return {
        k: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x
        for k, x in copied(given).items()
    }


def parts(found: Any) -> tuple:
    """Several results, or one."""
    return found if isinstance(found, tuple) else (found,)


def pairs(call: Call) -> Iterator[tuple[Any, Any]]:
    """Right and seen results that belong together."""
    right, seen = parts(call.right), parts(call.seen)
    return zip(right, seen, strict=True) if len(right) == len(seen) else iter(())


def alike(a: Any, b: Any, near: float = NEAR) -> bool:
    """The same results but for rounding."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        a, b = parts(a), parts(b)
        return len(a) == len(b) and all(alike(x, y, near) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        # No more than the judge allows of half precision: it is refused, however near.
        if a.shape != b.shape or (a.dtype == torch.bool) != (b.dtype == torch.bool):
            return False
        x, y = a.detach().double(), b.detach().double()
        return torch.allclose(y, x, rtol=near, atol=near / 10, equal_nan=True)
    if isinstance(a, int | float) and isinstance(b, int | float | Tensor):
        return math.isclose(float(a), float(b), rel_tol=near)
    return type(a) is type(b) and a == b


def _kept(x: Tensor, before: Tensor) -> bool:
    return x.shape == before.shape and torch.equal(x.nan_to_num(), before.nan_to_num())


def _gradients(f: Callable, given: dict[str, Any], weight: Callable) -> dict[str, Tensor | None]:
    leaves = {k: x for k, x in given.items() if isinstance(x, Tensor) and x.is_floating_point()}
    for x in leaves.values():
        x.requires_grad_()
    # Not the leaves themselves, so that an answer may change its inputs in place.
    found = result(f, {k: x * 1 if k in leaves else x for k, x in given.items()})
    outputs = [x for x in parts(found) if isinstance(x, Tensor) and x.requires_grad]
    if isinstance(found, Exception) or not outputs:
        return dict.fromkeys(leaves)
    total = sum((weight(x).to(x) * x).sum() for x in outputs)
    return dict(
        zip(leaves, torch.autograd.grad(total, [*leaves.values()], allow_unused=True), strict=True)
    )


def places(x: Tensor) -> Tensor:
    """A weight of its own for each number of a result."""
    return torch.arange(x.numel()).cos().view(x.shape)
