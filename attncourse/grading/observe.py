"""How an answer is looked at: call it on copies of the inputs and keep what can be compared."""

import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.answer import RemoteAnswer, as_answer
from attncourse.grading.compare import NO_GRADIENT, Close, Raised, plain


class NotAttempted(Exception):
    """The answer is still the stub of the exercise."""


@dataclass(frozen=True)
class Case:
    """One call of the answer. ``label`` says what is special about it, with its shapes."""

    label: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    gradients: bool = True


@dataclass(frozen=True)
class Call:
    """A case, the copies of its inputs that the answer gets, and what gives the result."""

    case: Case
    args: list
    kwargs: dict
    gradients: bool
    result: Callable[[], Any]


def calls_of(answer: Callable, cases: list[Case], gradients: bool) -> Iterator[Call]:
    """One `Call` per case. A remote answer runs all of them in one round trip, now."""
    batches = [cases] if isinstance(answer, RemoteAnswer) else [[case] for case in cases]
    for batch in batches:
        wanted = [gradients and case.gradients for case in batch]
        given = [
            (
                [_copy(x, want) for x in case.args],
                {name: _copy(x, False) for name, x in case.kwargs.items()},
            )
            for case, want in zip(batch, wanted, strict=True)
        ]
        torch.default_generator.manual_seed(0)
        results = as_answer(answer).results(given)
        for case, call, want, result in zip(batch, given, wanted, results, strict=True):
            yield Call(case, *call, want, result)


def run(call: Callable, *args: Any) -> Any:
    """The result of a call, or `Raised`.

    Raises:
        NotAttempted: what was called is the stub of the exercise.
    """
    try:
        return call(*args)
    except NotAttempted:
        raise
    except (Exception, SystemExit) as error:
        # A bare `raise NotImplementedError` is the stub; one that says something is an answer.
        if isinstance(error, NotImplementedError) and not error.args:
            raise NotAttempted from None
        return Raised.by(error)


def observe_call(call: Call, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Output, gradients of the inputs (called by ``names``), and whether these were left alone."""
    case, label = call.case, call.case.label
    torch.default_generator.manual_seed(0)
    output = run(call.result)
    if isinstance(output, Raised):
        yield f"{label}, output", output
        return
    given, before = (_named(names, x.args, x.kwargs) for x in (call, case))
    yield f"{label}, output", _detached(output)
    if call.gradients:
        yield from _gradients(output, given, label)
    changed = [name for name, x in given.items() if not torch.equal(x.detach(), before[name])]
    yield f"{label}, inputs left unchanged", not changed or f"no, {' and '.join(changed)} changed"


def _named(names: list[str], args: Iterable, kwargs: dict) -> dict[str, Tensor]:
    """The tensors among the arguments of a call, by their names."""
    numbered = (*names, *(f"argument {k + 1}" for k in range(len(names), len(args))))
    return {k: x for k, x in (*zip(numbered, args), *kwargs.items()) if isinstance(x, Tensor)}  # noqa: B905


def in_float64(spec):
    """The definition, computed in double precision whatever the inputs are.

    It raises `NotAttempted` where it is not written: held to a stub, every stub would be right.
    """

    def precise(*args, **kwargs):
        try:
            return spec(*map(_double, args), **{k: _double(x) for k, x in kwargs.items()})
        except NotImplementedError as error:
            raise NotAttempted(f"write the definition that answers are held to: {error}") from None

    return precise


def _double(x):
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def _copy(x, require_grad: bool):
    if not isinstance(x, Tensor):
        return x
    copy = x.clone()
    return copy.requires_grad_() * 1 if require_grad and x.is_floating_point() else copy


def _gradients(output, given: dict[str, Tensor], label: str) -> Iterator[tuple[str, Any]]:
    """Gradients of a fixed random mixture of all outputs."""
    generator = torch.Generator().manual_seed(1)
    outputs = output if isinstance(output, tuple | list) else [output]
    inputs = {name: x for name, x in given.items() if x.requires_grad}

    def found():
        total = sum(
            (o * torch.randn(o.shape, generator=generator)).sum()
            for o in outputs
            if isinstance(o, Tensor) and o.is_floating_point()
        )
        if not isinstance(total, Tensor) or not total.requires_grad:
            return [NO_GRADIENT] * len(inputs)
        found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
        return [
            torch.zeros_like(x) if g is None else g
            for x, g in zip(inputs.values(), found, strict=True)
        ]

    each = run(found)
    each = [each] * len(inputs) if isinstance(each, Raised) else each
    for name, gradient in zip(inputs, each, strict=True):
        yield f"{label}, gradient of {name}", gradient


def _detached(output):
    if isinstance(output, Tensor):
        return output.detach()
    if isinstance(output, tuple | list):
        return tuple(_detached(x) for x in output)
    return output


def observe_number(answer: Any, rtol: float) -> Any:
    """A number or several numbers as a tensor; anything else as itself."""
    if type(answer).__name__ == "ndarray" and answer.dtype.kind in "iuf":
        answer = torch.from_numpy(answer)
    if isinstance(answer, Tensor):
        return Close(answer.detach().double().cpu(), rtol) if plain(answer) else answer
    several = isinstance(answer, tuple | list)
    if several:
        answer = [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in answer]
    if not all(isinstance(x, numbers.Real) for x in (answer if several else [answer])):
        return answer
    if isinstance(answer, bool):
        return answer
    try:
        return Close(torch.tensor(answer, dtype=torch.float64), rtol)
    except (OverflowError, RuntimeError):  # an int beyond the range of a float
        return answer
