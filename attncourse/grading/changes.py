"""One-step mistakes of a dataflow: what can go wrong with each value, and the sentence for it."""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.axes import words
from attncourse.grading.dataflow import Dataflow, Value, named
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case

APART = "bh"  # axes whose places have nothing to do with each other
LIMITS = (1.0, 10.0, 50.0, 100.0, 1e4, 1e6)

Found = Iterator[tuple[str, Callable[[Value], Any]]]


def slips_of(right: Dataflow, case: Case) -> list[Mistake]:
    """One-step mistakes of all values that this call makes, the first values first."""
    bound = signature(right.steps).bind(*case.args, **case.kwargs).arguments
    given = [named(name, bound[x]) for x, name in right.given.items() if x in bound]
    every = {x.called: x for x in (*given, *right.values(*case.args, **case.kwargs))}
    result = right(*case.args, **case.kwargs)
    # Behind a rounding many functions give the same, so whole numbers do not tell which it was.
    whole = isinstance(result, Tensor) and not result.is_floating_point()
    return [
        right.slip(says, called, change)
        for called, made in every.items()
        if isinstance(made.number, Tensor)
        for says, change in changes_of(made, called in [x.called for x in given], whole)
    ]


def changes_of(made: Value, given: bool, whole: bool) -> Found:
    """What can go wrong with one value: sentences, and the change that each of them says.

    Args:
        given: is this an argument?
        whole: are the results whole numbers, or true and false?
    """
    for letter in made.axes:
        yield from (_of_places if letter in APART else _of_order)(made, letter)
    if made.make is not None:
        yield from _of_step(made)
    number = made.number
    if number.dtype == torch.bool:
        yield f"{made.called} are inverted.", lambda v: ~v.number
        yield (
            f"{made.called} have no effect: all count as True.",
            lambda v: torch.ones_like(v.number),
        )
    elif not number.is_floating_point():
        yield f"{made.called} are 1 too large.", lambda v: v.number + 1
        yield f"{made.called} are 1 too small.", lambda v: v.number - 1
    else:
        yield from _of_numbers(made, given)
        if not whole:
            yield from _of_functions(made)


def _over(f: Callable, *args: Any, **kwargs: Any) -> Callable[[Value], Tensor]:
    return lambda v: f(v.number, *args, **kwargs)


def _all_as(x: Tensor, place: int, dim: int) -> Tensor:
    return x.narrow(dim, place, 1).expand_as(x)


def _averaged(x: Tensor, dim: int) -> Tensor:
    return x.mean(dim, keepdim=True).expand_as(x)


def _of_places(made: Value, letter: str) -> Found:
    """Samples or heads, each of which has its own."""
    (one, many), dim, x = words(letter), made.axes.index(letter) - len(made.axes), made.called
    if made.number.dim() < -dim or made.number.size(dim) < 2:
        return
    own = f"each {one} has its own"
    yield f"{x} of {one} 0 are used for all {many}; {own}.", _over(_all_as, 0, dim)
    yield f"{x} are averaged over the {many}; {own}.", _over(_averaged, dim)
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
    for by, which in ((1, f"{one} before"), (-1, f"next {one}")):
        yield f"{x} are those of the {which}.", lambda v, by=by: _shifted(v.number, dim, by)
        says = f"{x} are those of the {which}, and go around at the end."
        yield says, _over(torch.roll, by, dim)
    yield f"{x} of {one} 0 are used for all {many}.", _over(_all_as, 0, dim)
    yield f"{x} of the last {one} are used for all {many}.", _over(_all_as, -1, dim)
    yield f"{x} are averaged over the {many}.", _over(_averaged, dim)
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
    """Floating-point numbers: gradients, signs, factors, and changes in place."""
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
    if given:
        yield (
            f"{x} are changed in place, and the caller finds them changed.",
            lambda v: v.number.mul_(2) / 2,
        )


def _of_functions(made: Value) -> Found:
    """Floating-point numbers: functions, limits, and a small number that is added."""
    x = made.called
    yield f"{x} are squared.", _over(torch.square)
    yield f"{x} go through an exponential.", _over(torch.exp)
    yield f"{x} go through a logarithm.", _over(torch.log)
    yield f"{x} go through a sigmoid.", _over(torch.sigmoid)
    if made.number.dim() and made.number.size(-1) > 1:
        yield f"{x} go through a softmax.", _over(torch.softmax, -1)
        yield f"{x} are divided by their sum.", lambda v: v.number / v.number.sum(-1, keepdim=True)
    yield f"{x} are taken from 1.", lambda v: 1 - v.number
    yield f"negative numbers among {x} become 0.", _over(torch.relu)
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
