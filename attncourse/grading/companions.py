"""Calls that follow from the listed ones: one argument alone changed, and each axis cut to 1.

An answer may keep what it made for one call under a key that misses an argument; it may squeeze an
axis of size 1, or broadcast along it. So every listed call that can be is made once more with
another value of each argument, with other numbers in tensors of the same shapes, with a row of
zeros in each, and cut to size 1 along each axis, or by a little where 1 is refused.
Calls that the definition refuses are left out: it must refuse whatever the statement excludes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.observe import Case, NotAttempted, run

Arguments = dict[int | str, Any]


def with_companions(definition: Callable, cases: list[Case], names: list[str]) -> list[Case]:
    """The cases, those that differ from one in one argument alone, and those with an axis cut."""
    pairs: dict[int | str, Case] = {}
    for case in cases:
        for at, changed in _changed(case, cases, names):
            if at not in pairs and _accepted(definition, changed):
                pairs[at] = changed
    graded = [x for x in cases if x.gradients] or cases
    case = max(graded, key=lambda x: sum(size > 1 for size in _sizes(x).values()))
    cut = (
        next((x for x in several if _accepted(definition, x)), None)
        for several in _cut(case, cases, names)
    )
    return [*cases, *pairs.values(), *filter(None, cut)]


def _changed(case: Case, cases: list[Case], names: list[str]) -> Iterator[tuple[Any, Case]]:
    """A case with another value of one argument: which argument, and the case."""
    given = _arguments(case)
    for at, value in given.items():
        if _real(value) or callable(value):
            continue
        if isinstance(value, Tensor):
            others = [_turned(value)]
        else:
            others = [x for x in (_arguments(c).get(at) for c in cases) if _other(x, value)]
        for other in others[:4]:
            shown = "in another order" if isinstance(other, Tensor) else _shown(other)
            yield at, _named(case, {at: other}, f"the same with {_name(at, names)} {shown}")
    floats = {k: _turned(x) for k, x in given.items() if _real(x)}
    if floats and not any(map(callable, given.values())):  # a function may know the numbers
        yield "numbers", _named(case, floats, "the same sizes with other numbers")
        zeros = {k: _zeroed(x) for k, x in floats.items()}
        yield "zeros", _named(case, zeros, "the same sizes with zeros in the first rows")


def _cut(case: Case, cases: list[Case], names: list[str]) -> Iterator[Iterator[Case]]:
    """A case cut to size 1, or else by a little, along each group of axes that have one size."""
    sizes = [_sizes(x) for x in cases]
    groups: dict[tuple, list[tuple]] = {}
    for axis in (x for x in sizes[0] if all(x in y for y in sizes)):
        groups.setdefault(tuple(x[axis] for x in sizes), []).append(axis)
    ones = [x.count(1) for x in zip(*groups, strict=True)]
    for each, group in groups.items():
        if any(axis is None for _, axis in group):
            continue
        # Where a listed case has size 1 there, and nowhere else, it is met.
        size, met = _sizes(case)[group[0]], 0 in each or (1, 1) in zip(each, ones, strict=True)
        lengths = [*([] if met else [1]), size - 1, size - 2]
        yield (_shorter(case, group, k, names) for k in lengths if 0 < k < size)


def _shorter(case: Case, group: list[tuple], size: int, names: list[str]) -> Case:
    cut = dict(_arguments(case))
    for at, axis in group:
        cut[at] = cut[at].narrow(axis, 0, size)
    where = " and ".join(f"axis {axis} of {_name(at, names)}" for at, axis in group[:2])
    return _named(case, cut, f"cut to size {size} along {where}")


def _arguments(case: Case) -> Arguments:
    """All arguments, by their place or name."""
    return dict(enumerate(case.args)) | case.kwargs


def _named(case: Case, arguments: Arguments, what: str) -> Case:
    """The case with some other arguments, and that in its label."""
    args = tuple(arguments.get(k, x) for k, x in enumerate(case.args))
    kwargs = {k: arguments.get(k, x) for k, x in case.kwargs.items()}
    return replace(case, label=f"{case.label}; {what}", args=args, kwargs=kwargs, gradients=None)


def _sizes(case: Case) -> dict[tuple[int | str, int | None], int]:
    """The sizes of the axes of tensors, and whole numbers, which have no axis."""
    found: dict[tuple[int | str, int | None], int] = {}
    for at, x in _arguments(case).items():
        if isinstance(x, Tensor):
            found |= {(at, axis): size for axis, size in enumerate(x.shape)}
        elif isinstance(x, int) and not isinstance(x, bool):
            found[at, None] = x
    return found


def _real(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _turned(x: Tensor) -> Tensor:
    """The numbers of a tensor in another order, along its first axis that has several places."""
    return next((x.flip(k) for k, size in enumerate(x.shape) if size > 1), x)


def _zeroed(x: Tensor) -> Tensor:
    """The numbers of a tensor, but 0 in its first row, or in its first place."""
    rows = torch.atleast_1d(x.clone())
    (rows[..., :1, :] if rows.dim() > 1 else rows[:1]).zero_()
    return rows.view_as(x)


def _other(x: Any, value: Any) -> bool:
    """May x stand in the place of this value, and is it another one?"""
    return type(x) is type(value) and not isinstance(x, tuple | list | dict) and x != value


def _accepted(definition: Callable, case: Case) -> bool:
    """Does the definition give numbers?"""
    try:
        found = run(lambda: definition(*case.args, **case.kwargs))
    except NotAttempted:  # it is not written yet
        return False
    results = found if isinstance(found, tuple) else (found,)
    return not any(isinstance(x, Raised) or _real(x) and bool(x.isnan().any()) for x in results)


def _name(at: int | str, names: list[str]) -> str:
    return names[at] if isinstance(at, int) else at


def _shown(x: Any) -> str:
    return f"{x:,}" if isinstance(x, int | float) and not isinstance(x, bool) else str(x)
