"""Answers to function exercises: functions of this process, and proxies of others."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.grading.allocations import Allocations, made_by


@dataclass(frozen=True)
class Question:
    """One call of an answer.

    Args:
        args, kwargs: arguments; the answer gets copies.
        gradients: True asks for the gradients of all floating-point ``args``, too.
        beside: tensors that the answer holds, such as its parameters; the outcome has their
            gradients, too, and names those that the call changed.
    """

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    gradients: bool = False
    beside: tuple[Tensor, ...] = ()


class Outcome(NamedTuple):
    """The outcome of one call.

    Args:
        output: the return value.
        gradients: of each input in turn, None where no graph leads there; or the error of the
            backward pass.
        changed: indices of the arguments that the call changed, counted over all tensors and then
            the lists of ``args``.
    """

    output: Any
    gradients: list[Tensor | None] | BaseException
    changed: list[int]


class RemoteAnswer(ABC):
    """An answer in another process. Only explicit subclasses count: no submission can pretend.

    The other process can lie about allocations; `within` measures them by a memory limit.
    """

    @abstractmethod
    def results(self, calls: list[Question]) -> list[Callable[[], Outcome]]:
        """One function for each call: it returns the outcome, or raises the error of the call."""

    @abstractmethod
    def allocations(self, *args: Any) -> Allocations:
        """Sizes of the tensors that a call creates."""

    @abstractmethod
    def within(self, most_bytes: int, *args: Any) -> Any:
        """The result of a call that is limited to ``most_bytes`` beyond its arguments.

        Raises:
            Exception: the call exceeds the limit.
        """


class RemoteLayer(ABC):
    """A layer whose ``forward`` runs in another process; only explicit subclasses count."""

    @abstractmethod
    def allocations(self, *args: Any) -> Allocations: ...


class LocalAnswer:
    """A function of this process."""

    def __init__(self, function: Callable):
        self.function = function

    def results(self, calls: list[Question]) -> list[Callable[[], Outcome]]:
        return [partial(look, self.function, question) for question in calls]

    def allocations(self, *args: Any) -> Allocations:
        return made_by(self.function, *args)


def as_answer(answer: Callable) -> LocalAnswer | RemoteAnswer:
    """The answer itself if it is remote, else a `LocalAnswer`."""
    return answer if isinstance(answer, RemoteAnswer) else LocalAnswer(answer)


def look(function: Callable, question: Question) -> Outcome:
    """The outcome of a call on copies of the arguments, in this process."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed formats a stack, three times
    leaves = [_copy(x) for x in question.args]
    args = [_from_a_layer(x) if question.gradients else x for x in leaves]
    kwargs = {name: _copy(x) for name, x in question.kwargs.items()}
    given = tensors_in((*args, *kwargs.values(), *question.beside))
    before = [x.detach().clone() for x in given]
    inputs = [x for x in tensors_in((*leaves, *question.beside)) if x.requires_grad]
    output = function(*args, **kwargs)
    gradients: list[Tensor | None] | BaseException = []
    if question.gradients:
        try:
            gradients = gradients_of(output, inputs)
        except (Exception, SystemExit) as error:
            gradients = error
    kept = [torch.equal(x.detach(), y) for x, y in zip(given, before, strict=True)]
    lists = zip(lists_in(question.args), lists_in(args), strict=True)
    kept += [_alike(*both) for both in lists]
    return Outcome(output, gradients, [k for k, same in enumerate(kept) if not same])


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among these values."""
    return [x for x in values if isinstance(x, Tensor)]


def tensors_of(result: Any) -> tuple[Tensor, ...]:
    """All tensors of a result, however nested."""
    if isinstance(result, Tensor):
        return (result,)
    parts = result.values() if isinstance(result, dict) else result
    several = isinstance(result, tuple | list | dict)
    return tuple(x for part in parts for x in tensors_of(part)) if several else ()


def lists_in(values: Any) -> list[list | dict]:
    """The lists and dictionaries among these values."""
    return [x for x in values if isinstance(x, list | dict)]


def _alike(x: list | dict, y: list | dict) -> bool:
    try:
        return bool(x == y)
    except Exception:  # the comparison of tensors inside, for example
        return True


def _copy(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach().clone()
    return deepcopy(x) if isinstance(x, list | dict) else x


def _from_a_layer(x: Any) -> Any:
    """A floating-point tensor as the result of a layer, so it is no leaf of the graph."""
    real = isinstance(x, Tensor) and x.is_floating_point()
    return Kept.apply(x.requires_grad_()) if real else x


class Kept(torch.autograd.Function):
    """The identity, as a layer that needs what it returned on the way back, as softmax does.

    Who changes that in place gets torch's own error.
    """

    @staticmethod
    def forward(ctx, x):
        kept = x.clone()
        ctx.save_for_backward(kept)
        return kept

    @staticmethod
    def backward(ctx, gradient):
        _ = ctx.saved_tensors  # raises where it was changed
        return gradient


def gradients_of(output: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """Gradients of a fixed random mixture of all outputs; None where no graph leads there."""
    generator = torch.Generator().manual_seed(1)
    outputs = output if isinstance(output, tuple | list) else [output]
    total = sum(
        (o * torch.randn(o.shape, generator=generator)).sum()
        for o in outputs
        if isinstance(o, Tensor) and o.is_floating_point()
    )
    if not isinstance(total, Tensor) or not total.requires_grad or not inputs:
        return [None] * len(inputs)
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]
