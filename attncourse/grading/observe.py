"""How an answer is looked at: call it on copies of the inputs and keep what can be compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attncourse.grading.answer import Outcome, Question, RemoteAnswer, as_answer
from attncourse.grading.compare import NO_GRADIENT, Raised

FINITE = " is finite"


class NotAttempted(Exception):
    """The answer is still the stub of the exercise."""


@dataclass(frozen=True)
class Case:
    """One call of the answer.

    Args:
        label: what is special about the call, with its shapes.
        args, kwargs: of the call.
        gradients: True compares those of the inputs where the exercise asks for any. False, as for
            scores so large that float32 rounds them, only asks that they are finite; None, nothing.
    """

    label: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    gradients: bool | None = True


@dataclass(frozen=True)
class Call:
    """A case, what it asks, and what gives the outcome.

    Args:
        beside: the question's, by their names.
    """

    case: Case
    question: Question
    beside: Mapping[str, Tensor]
    result: Callable[[], Outcome]


def calls_of(
    answer: Callable, cases: list[Case], gradients: bool, beside: Mapping[str, Tensor] | None = None
) -> Iterator[Call]:
    """One `Call` per case. A remote answer runs all of them in one round trip, now."""
    beside = beside or {}
    held = tuple(beside.values())
    batches = [cases] if isinstance(answer, RemoteAnswer) else [[case] for case in cases]
    for batch in batches:
        asked = [
            Question(x.args, x.kwargs, gradients and x.gradients is not None, held) for x in batch
        ]
        results = as_answer(answer).results(asked)
        for case, question, result in zip(batch, asked, results, strict=True):
            yield Call(case, question, beside, result)


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
    case, label, outcome = call.case, call.case.label, run(call.result)
    if isinstance(outcome, Raised):
        yield f"{label}, output", outcome
        return
    yield f"{label}, output", detached(outcome.output)
    first = _named(names, case.args, {})
    given = first | _named([], [], case.kwargs | dict(call.beside))
    if call.question.gradients:
        wanted = [name for name, x in first.items() if x.is_floating_point()]
        wanted += [name for name, x in call.beside.items() if x.requires_grad]
        for name, gradient in zip(wanted, _told(outcome.gradients, len(wanted)), strict=True):
            if case.gradients:
                yield f"{label}, gradient of {name}", gradient
            else:
                yield f"{label}, gradient of {name}{FINITE}", _finite(gradient)
    lists = [name for name, x in zip(names, case.args, strict=False) if isinstance(x, list | dict)]
    changed = [name for k, name in enumerate([*given, *lists]) if k in outcome.changed]
    yield f"{label}, inputs left unchanged", not changed or f"no, {' and '.join(changed)} changed"


def _told(gradients: list[Tensor | None] | BaseException, count: int) -> list:
    """What is seen of each gradient."""
    if isinstance(gradients, BaseException):
        return [run(_raise, gradients)] * count
    return [NO_GRADIENT if x is None else x for x in gradients]


def _finite(gradient: Any) -> Any:
    """True for numbers, or for none where no graph leads there; an error is itself."""
    if not isinstance(gradient, Tensor) or bool(gradient.isfinite().all()):
        return gradient if isinstance(gradient, Raised) else True
    return "no, it has NaN or infinite numbers"


def _raise(error: BaseException) -> None:
    raise error


def _named(names: list[str], args: Sequence, kwargs: Mapping) -> dict[str, Tensor]:
    """The tensors among the arguments of a call, by their names."""
    numbered = (*names, *(f"argument {k + 1}" for k in range(len(names), len(args))))
    pairs = *zip(numbered, args, strict=False), *kwargs.items()
    return {k: x for k, x in pairs if isinstance(x, Tensor)}


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


def detached(output):
    """A copy of the output without its graph; lists become tuples."""
    if isinstance(output, Tensor):
        return output.detach().clone()
    if isinstance(output, tuple | list):
        return tuple(detached(x) for x in output)
    return output
