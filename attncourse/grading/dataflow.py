"""A right answer as a dataflow: named values with named axes, from which one-step mistakes follow.

    @dataflow(log_decay="the log-decays: b h t")
    def right(log_decay):
        total = yield value("the running sums: b h t", log_decay.cumsum, dim=-1)
        pairs = yield value("their differences: b h i j", total[..., :, None] - total[..., None, :])
        return pairs.exp().tril()

Called like a function it is the right answer: every value that is yielded comes back as it is. A slip sends
another one back, so that it differs from the right answer in one step, and its sentence follows from the
names. What only one exercise can get wrong is written by hand: `Dataflow.but`.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.axes import words
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case

APART = "bh"  # axes whose places have nothing to do with each other
LIMITS = (1.0, 10.0, 50.0, 100.0, 1e4, 1e6)


@dataclass(frozen=True)
class Value:
    """One value on the way.

    Args:
        called: as a student would call it, in the plural: "the running sums".
        axes: their letters, as in `attncourse.grading.explain.asked.AXES`.
        number: the tensor; where a step can run over another axis, made by ``make(dim)``.
        by: the steps of a `Recipe` that make the value; of a `Dataflow` they are called as the value is.
    """

    called: str
    axes: tuple[str, ...]
    number: Any
    make: Callable | None = None
    dim: int = 0
    by: tuple[str, ...] = ()


def value(named: str, made: Any, dim: int | None = None) -> Value:
    """A value, from its name with its axes behind a colon: ``"the weights: b h n m"``.

    Args:
        named: name and axes.
        made: the tensor; or with ``dim`` a function of the axis along which the step runs.
    """
    called, _, axes = named.partition(": ")
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
        """The values of one call, in the order in which they are made; the arguments are not among them."""
        kept: list[Value] = []
        self._run(args, kwargs, kept)
        return kept

    def _run(self, args: tuple, kwargs: dict[str, Any], kept: list[Value]) -> Any:
        bound = signature(self.steps).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, given in self.given.items():
            if bound.arguments[name] is not None:
                bound.arguments[name] = self._sent(value(given, bound.arguments[name]))
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
        return self._slip(says, called, lambda made: change(made.number))

    def slips(self, case: Case) -> list[Mistake]:
        """One-step mistakes of all values that this call makes, the first values first."""
        bound = signature(self.steps).bind(*case.args, **case.kwargs).arguments
        given = [value(named, bound[x]) for x, named in self.given.items() if x in bound]
        every = {x.called: x for x in (*given, *self.values(*case.args, **case.kwargs))}
        return [
            self._slip(says, called, change)
            for called, made in every.items()
            if isinstance(made.number, Tensor)
            for says, change in changes_of(made, called in [x.called for x in given])
        ]

    def changed(self, called: str) -> "Dataflow":
        """The same with other numbers in the place of a value: what depends on it changes."""
        return replace(self, changes=(Change(called, _other),))

    def _slip(self, says: str, called: str, change: Callable[[Value], Any]) -> Mistake:
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


Found = Iterator[tuple[str, Callable[[Value], Any]]]


def changes_of(made: Value, given: bool) -> Found:
    """What can go wrong with one value: sentences, and the change that each of them says."""
    for letter in made.axes:
        yield from (_of_places if letter in APART else _of_order)(made, letter)
    if made.make is not None:
        yield from _of_step(made)
    number = made.number
    if number.dtype == torch.bool:
        yield f"{made.called} are inverted.", lambda v: ~v.number
        yield f"{made.called} are not used: all are True.", lambda v: torch.ones_like(v.number)
    elif not number.is_floating_point():
        yield f"{made.called} are 1 too large.", lambda v: v.number + 1
        yield f"{made.called} are 1 too small.", lambda v: v.number - 1
    else:
        yield from _of_numbers(made, given)


def _over(f: Callable, *args: Any, **kwargs: Any) -> Callable[[Value], Tensor]:
    return lambda v: f(v.number, *args, **kwargs)


def _of_places(made: Value, letter: str) -> Found:
    """Samples or heads, each of which has its own."""
    (one, many), dim, x = words(letter), made.axes.index(letter) - len(made.axes), made.called
    if made.number.dim() < -dim or made.number.size(dim) < 2:
        return
    own = f"each {one} has its own"
    yield (
        f"{x} of {one} 0 are used for all {many}; {own}.",
        lambda v: v.number.narrow(dim, 0, 1).expand_as(v.number),
    )
    yield (
        f"{x} are averaged over the {many}; {own}.",
        lambda v: v.number.mean(dim, keepdim=True).expand_as(v.number),
    )
    yield f"{x} of the {many} are exchanged; {own}.", _over(torch.roll, 1, dim)
    yield (
        f"{x} of {one} 0 alone are left; keep those of all {many}.",
        lambda v: v.number.narrow(dim, 0, 1),
    )


def _of_order(made: Value, letter: str) -> Found:
    """Places that follow each other: tokens, queries, keys, features."""
    (one, many), dim, x = words(letter), made.axes.index(letter) - len(made.axes), made.called
    if made.number.dim() < -dim or made.number.size(dim) < 2:
        return
    yield (
        f"{x} stand in the opposite order of {many}; they count from 0.",
        _over(torch.flip, (dim,)),
    )
    for by, how in ((1, "late"), (-1, "early")):
        yield f"{x} are one {one} too {how}.", lambda v, by=by: _shifted(v.number, dim, by)
        yield f"{x} are one {one} too {how}, and go around at the end.", _over(torch.roll, by, dim)
    yield (
        f"{x} of {one} 0 are used for all {many}.",
        lambda v: v.number.narrow(dim, 0, 1).expand_as(v.number),
    )
    yield (
        f"{x} of the last {one} are used for all {many}.",
        lambda v: v.number.narrow(dim, -1, 1).expand_as(v.number),
    )
    yield (
        f"{x} are averaged over the {many}.",
        lambda v: v.number.mean(dim, keepdim=True).expand_as(v.number),
    )
    if dim == -1 and made.number.dim() > 1:
        other = words(made.axes[-2])[0]
        if other == one:
            return
        yield f"in {x} the axes of {other} and {one} are exchanged.", lambda v: v.number.mT


def _shifted(x: Tensor, dim: int, by: int) -> Tensor:
    """Moved by one place; at the end stands what stood there."""
    at = (torch.arange(x.size(dim)) - by).clamp(0, x.size(dim) - 1)
    return x.index_select(dim, at)


def _of_step(made: Value) -> Found:
    """A step that runs over another axis, or twice."""
    axes, x = made.axes, made.called
    right = words(axes[made.dim])[1]
    for letter in axes:
        dim = axes.index(letter) - len(axes)
        if dim != made.dim - (len(axes) if made.dim >= 0 else 0):
            wrong = words(letter)[1]
            yield (
                f"{x} are made along the {wrong}; make them along the {right}.",
                lambda v, d=dim: v.make(d),
            )


def _of_numbers(made: Value, given: bool) -> Found:
    """Floating-point numbers: gradients, signs, functions, limits."""
    x = made.called
    yield (
        f"no gradient flows through {x}: they are detached, or made inside no_grad.",
        _over(Tensor.detach),
    )
    yield f"the sign of {x} is turned.", _over(torch.neg)
    yield f"{x} lose their sign.", _over(torch.abs)
    yield f"{x} are not used: the result is the same whatever they are.", _over(torch.zeros_like)
    yield (
        f"{x} are rounded to half precision; stay in float32.",
        lambda v: v.number.half().to(v.number.dtype),
    )
    yield f"{x} are twice too large.", lambda v: v.number * 2
    yield f"{x} are half as large as they should be.", lambda v: v.number / 2
    yield f"{x} are squared.", _over(torch.square)
    yield f"{x} go through an exponential.", _over(torch.exp)
    yield f"{x} go through a logarithm.", _over(torch.log)
    yield f"{x} go through a sigmoid.", _over(torch.sigmoid)
    if made.number.dim() and made.number.size(-1) > 1:
        yield f"{x} go through a softmax.", _over(torch.softmax, -1)
        yield f"{x} are divided by their sum.", lambda v: v.number / v.number.sum(-1, keepdim=True)
    yield f"{x} are taken from 1.", lambda v: 1 - v.number
    yield f"negative numbers among {x} become 0.", _over(torch.relu)
    if given:
        yield (
            f"{x} are changed in place, and the caller finds them changed.",
            lambda v: v.number.mul_(2) / 2,
        )
    for limit in LIMITS:
        says = f"{x} are limited by a number such as {limit:g}; there is no limit."
        for low, high in ((-limit, None), (None, limit)):
            yield (
                says,
                lambda v, a=low, b=high: torch.where(
                    v.number.isinf(), v.number, v.number.clamp(a, b)
                ),
            )
    for small in (1e-6, 1e-4):
        yield f"a small number such as {small:g} is added to {x}.", lambda v, e=small: v.number + e


named = value  # where an argument of the answer is called value
