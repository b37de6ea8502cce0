"""The answer to a function exercise: one that runs here, or one that lives in another process."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from attncourse.grading.allocations import Allocations, made_by


@dataclass(frozen=True)
class Question:
    """One call, and what is wanted of it.

    Args:
        args, kwargs: the answer gets copies of them.
        gradients: also the gradients of all ``args`` of floating point.
        beside: tensors that the answer holds anyway, such as its parameters: gradients of those that want
            some, and whether they were left alone.
    """

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    gradients: bool = False
    beside: tuple[Tensor, ...] = ()


class Outcome(NamedTuple):
    """What one call gave.

    Args:
        output: as it was returned.
        gradients: of each input in turn, None where none can reach it; or the error that they raised.
        changed: the places of the tensors, among all of the call, and behind them of the lists among ``args``, that
            are not what they were.
    """

    output: Any
    gradients: list[Tensor | None] | BaseException
    changed: list[int]


class Answer(Protocol):
    """What judges ask of an answer."""

    def results(self, calls: list[Question]) -> list[Callable[[], Outcome]]:
        """For each call a function that gives its outcome, or raises what it raised."""

    def allocations(self, *args: Any) -> Allocations:
        """How large the tensors are that a call makes on its way."""


class RemoteAnswer(ABC):
    """An answer in another process. Only explicit subclasses count: a submission cannot pretend to be one.

    It can lie about its allocations, so it must also give its result under a limit of memory.
    """

    @abstractmethod
    def results(self, calls: list[Question]) -> list[Callable[[], Outcome]]: ...

    @abstractmethod
    def allocations(self, *args: Any) -> Allocations: ...

    @abstractmethod
    def within(self, most_bytes: int, *args: Any) -> Any:
        """The result of a call that may take so many bytes beyond its arguments.

        Raises:
            Exception: the call takes more.
        """


class RemoteLayer(ABC):
    """A layer whose ``forward`` runs in another process; only explicit subclasses count, as of `RemoteAnswer`."""

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


def as_answer(answer: Callable) -> Answer:
    """The answer itself if it is remote, else a `LocalAnswer`."""
    return answer if isinstance(answer, RemoteAnswer) else LocalAnswer(answer)


def look(function: Callable, question: Question) -> Outcome:
    """Call a function on copies, in the process in which it lives."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed formats a stack, three times
    args = [_copy(x, question.gradients) for x in question.args]
    kwargs = {name: _copy(x, False) for name, x in question.kwargs.items()}
    given = tensors_in((*args, *kwargs.values(), *question.beside))
    before, inputs = [x.detach().clone() for x in given], [x for x in given if x.requires_grad]
    output = function(*args, **kwargs)
    gradients = []
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


def lists_in(values: Any) -> list[list | dict]:
    """The lists and dictionaries among these values."""
    return [x for x in values if isinstance(x, list | dict)]


def _alike(x: list | dict, y: list | dict) -> bool:
    try:
        return bool(x == y)
    except Exception:  # of tensors, for example
        return True


def _copy(x: Any, wants_gradient: bool) -> Any:
    """A copy that may be changed in place, so no leaf of the graph."""
    if not isinstance(x, Tensor):
        return deepcopy(x) if isinstance(x, list | dict) else x
    copy = x.detach().clone()
    return copy.requires_grad_() * 1 if wants_gradient and x.is_floating_point() else copy


def gradients_of(output: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """Gradients of a fixed random mixture of all outputs; None where no graph leads to the inputs."""
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
