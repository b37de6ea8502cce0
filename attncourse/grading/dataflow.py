"""A right answer as a dataflow: named values with named axes, from which one-step mistakes follow.

    @dataflow(log_decay="the log-decays: b h t")
    def right(log_decay):
        total = yield named("the running sums: b h t", log_decay.cumsum, dim=-1)
        pairs = yield named("their differences: b h i j", total[..., :, None] - total[..., None, :])
        past = yield named("those of the past: b h i j", pairs.masked_fill(later(pairs), -math.inf))
        return past.exp()

Called like a function it is the right answer: every value that is yielded comes back as it is. A
slip sends another one back, so that it differs from the right answer in one step, and its sentence
follows from the names. What only one exercise can get wrong is written by hand: `Dataflow.but`.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.mistake import Mistake


@dataclass(frozen=True)
class Value:
    """One value on the way.

    Args:
        called: as a student would call it, in the plural: "the running sums".
        axes: their letters, as in `attncourse.grading.explain.asked.AXES`.
        number: the tensor; where a step can run over another axis, made by ``make(dim)``.
        by: the steps of a `Recipe` that make the value; those of a `Dataflow` are called as it is.
    """

    called: str
    axes: tuple[str, ...]
    number: Any
    make: Callable | None = None
    dim: int = 0
    by: tuple[str, ...] = ()


def named(name: str, made: Any, dim: int | None = None) -> Value:
    """A value, from its name with its axes behind a colon: ``"the weights: b h n m"``.

    Args:
        name: with its axes.
        made: the tensor; or with ``dim`` a function of the axis along which the step runs.
    """
    called, _, axes = name.partition(": ")
    if dim is None:
        return Value(called, tuple(axes.split()), made)
    return Value(called, tuple(axes.split()), made(dim), made, dim)


@dataclass(frozen=True)
class Change:
    """Another value in the place of one."""

    called: str
    of: Callable[[Value], Any]


@dataclass(frozen=True)
class Dataflow:
    """A right answer in named steps.

    Args:
        steps: a generator function that yields each `Value` and goes on with what comes back.
        given: the arguments that are tensors: their names and axes, by argument.
        changes: values that are sent back changed; none in the right answer.
    """

    steps: Callable[..., Generator]
    given: dict[str, str] = field(default_factory=dict, hash=False)
    changes: tuple[Change, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(args, kwargs, [])

    def values(self, *args: Any, **kwargs: Any) -> list[Value]:
        """The values of one call in the order in which they are made, without the arguments."""
        kept: list[Value] = []
        self._run(args, kwargs, kept)
        return kept

    def _run(self, args: tuple, kwargs: dict[str, Any], kept: list[Value]) -> Any:
        bound = signature(self.steps).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, given in self.given.items():
            if bound.arguments[name] is not None:
                bound.arguments[name] = self._sent(named(given, bound.arguments[name]))
        flow, back = self.steps(*bound.args, **bound.kwargs), None
        while True:
            try:
                made = flow.send(back)
            except StopIteration as end:
                return end.value
            kept.append(made)
            back = self._sent(made)

    def _sent(self, made: Value) -> Any:
        """The value that goes on: this one, unless it is to be changed."""
        for change in self.changes:
            if change.called == made.called:
                made = replace(made, number=change.of(made))
        return made.number

    def but(self, says: str, called: str, change: Callable[[Tensor], Any]) -> Mistake:
        """The mistake that changes one value, with the sentence that a student reads."""
        return self.slip(says, called, lambda made: change(made.number))

    def changed(self, called: str) -> "Dataflow":
        """The same with other numbers in the place of a value: what depends on it changes."""
        return replace(self, changes=(Change(called, _other),))

    def slip(self, says: str, called: str, change: Callable[[Value], Any]) -> Mistake:
        """The mistake that puts something else in the place of a value."""
        wrong = replace(self, changes=(Change(called, change),))
        return Mistake(says[:1].upper() + says[1:], wrong, {called: change})


def dataflow(**given: str) -> Callable[[Callable[..., Generator]], Dataflow]:
    """Make a `Dataflow` of a generator function.

    Args:
        given: names and axes of the arguments that are tensors.
    """

    def made(steps: Callable[..., Generator]) -> Dataflow:
        flow = Dataflow(steps, given)
        object.__setattr__(flow, "__signature__", signature(steps))
        object.__setattr__(flow, "__doc__", steps.__doc__)
        object.__setattr__(flow, "__name__", steps.__name__)
        return flow

    return made


def _other(made: Value) -> Any:
    """Other numbers, or other booleans."""
    return ~made.number if made.number.dtype == torch.bool else 2 * made.number + 1
