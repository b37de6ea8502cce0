"""How is the result related to the right one? One relation that holds in every call."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.allocations import Recorder
from attncourse.grading.answer import Question, RemoteAnswer, look
from attncourse.grading.axes import apart, words
from attncourse.grading.compare import plain, same
from attncourse.grading.explain.asked import Asked, axis_names, labels, off, tensors
from attncourse.grading.observe import run

# bfloat16 keeps 8 bits; a few roundings in a row lose two or three of them.
COARSE = 0.03


def related(asked: Asked) -> str:
    """One relation between the right result and the wrong one, in all calls that can tell it.

    Large scores make weights 0 or 1, between which many a relation holds by chance.
    """
    if asked.only_loud:
        return ""
    results = max(
        (len(x.expected) for x in asked.calls if isinstance(x.expected, tuple)), default=1
    )
    for number in range(results):
        pairs = [
            both[number] for x in asked.calls if len(both := tensors(x.expected, x.seen)) == results
        ]
        if len(pairs) != len(asked.calls) or all(same(*both) for both in pairs):
            continue
        if says := _relation(asked, pairs, number) or _moved(asked, pairs, number):
            return says if results == 1 else f"{_named(asked, number, results)}: {says}"
    return ""


def _named(asked: Asked, number: int, results: int) -> str:
    """What a result is called, at the beginning of a sentence."""
    names = asked.exercise.results
    if len(names) != results:
        return f"Result {number + 1} of {results}"
    return f"{names[number][:1].upper()}{names[number][1:]}"


def _relation(asked: Asked, pairs: list[tuple[Any, Any]], number: int) -> str:
    """The relation that holds for each of these pairs."""
    if not all(plain(e) and plain(s) for e, s in pairs):
        return ""
    boolean = any(e.dtype == torch.bool for e, _ in pairs)
    pairs = [(e.double(), s.double().cpu()) for e, s in pairs if e.numel() > 1]
    if not pairs:
        return ""
    alike = len({e.dim() for e, _ in pairs}) == 1
    for says, change in relations(axis_names(asked, pairs[0][0], number) if alike else []):
        if _holds(change, pairs):
            return f"{says}."
    return "" if boolean else _elsewhere(pairs)


def _moved(asked: Asked, pairs: list[tuple[Any, Any]], number: int) -> str:
    """The right numbers in another order along an axis, in every call."""
    if not all(plain(e) and plain(s) and e.shape == s.shape for e, s in pairs):
        return ""
    if all(e.dtype == torch.bool for e, _ in pairs):
        return ""  # as many of each tells no order
    letters = axis_names(asked, pairs[0][0], number)
    for d, letter in enumerate(letters):
        both = [(e.double().sort(d).values, s.double().sort(d).values) for e, s in pairs]
        if len({e.dim() for e, _ in pairs}) == 1 and all(_close(*x) for x in both):
            return (
                f"All right numbers are there, but the {words(letter)[1]} stand in another order."
            )
    return ""


def _holds(change: Callable, pairs: list[tuple[Tensor, Tensor]]) -> bool:
    """Does ``change`` make each wrong result of the right one, and change at least one of them?"""
    telling = False
    for right, seen in pairs:
        try:
            changed = change(right)
        except (RuntimeError, IndexError):  # not for these axes
            return False
        if changed.shape != seen.shape or not _close(changed, seen):
            return False
        telling |= changed.shape != right.shape or not _close(changed, right)
    return telling


def _close(a: Tensor, b: Tensor) -> bool:
    a, b = (x.nan_to_num(7e7, 1e30, -1e30) for x in (a, b))
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def relations(names: list[str]) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Sentences, and the change of the right result that each of them says."""
    for d, letter in enumerate(names):
        yield from _along(d, *words(letter))
    yield "This is the right result with its sign turned", torch.neg
    yield "This is the right result without its sign", torch.abs
    yield "This is the exponential of the right result", torch.exp
    yield "This is the logarithm of the right result", torch.log
    yield "This is the square of the right result", torch.square
    yield "This is the square root of the right result", torch.sqrt
    yield "This is the sigmoid of the right result", torch.sigmoid
    yield "This is 1 minus the right result", lambda x: 1 - x
    yield "This is the right result rounded down, as // does it", torch.floor
    yield "Every number is 1 too large", lambda x: x + 1
    yield "Every number is 1 too small", lambda x: x - 1
    yield "Negative numbers became 0", torch.relu


def _along(d: int, one: str, many: str) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Those of one axis."""
    ends = (0, f"{one} 0"), (-1, f"the last {one}")
    yield f"The {many} stand in the opposite order", lambda x: x.flip(d)
    for by in (1, -1):
        yield f"Everything is moved by one {one}", lambda x, by=by: x.roll(by, d)
    for at, which in ends:
        says = f"The result of {which} stands at all {many}"
        yield says, lambda x, at=at: x.narrow(d, at, 1).expand_as(x)
    for reduce, did in ((torch.mean, "averaged"), (torch.sum, "added up")):
        says = f"The right results are {did} over the {many}; keep those of each {one}"
        yield says, lambda x, f=reduce: f(x, d, keepdim=True)
        yield says, lambda x, f=reduce: f(x, d)
        yield says, lambda x, f=reduce: f(x, d, keepdim=True).expand_as(x)
    for at, which in ends:
        says = f"Only the result of {which} is returned; return those of all {many}"
        yield says, lambda x, at=at: x.narrow(d, at, 1)
        yield says, lambda x, at=at: x.select(d, at)
    for at, which in ends:
        says = f"The result of {which} is missing"
        yield says, lambda x, at=at: x.narrow(d, at + 1, x.size(d) - 1)
    yield f"The results are divided by their sum over the {many}", lambda x: x / x.sum(d, True)
    yield f"The results are added up along the {many}, one after the other", lambda x: x.cumsum(d)
    yield f"The results went through a softmax over the {many}", lambda x: x.softmax(d)


def _elsewhere(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """All is right but for the places of one special number."""
    for value, name in ((-math.inf, "minus infinity"), (math.inf, "infinity"), (0.0, "0")):
        at = [(e == value) for e, _ in pairs]
        if not any(x.any() for x in at) or all(x.all() for x in at):
            continue
        if all(
            e.shape == s.shape and _close(e.masked_fill(x, 0), s.masked_fill(x, 0))
            for x, (e, s) in zip(at, pairs, strict=True)
        ):
            found = [s[x & (s != value)] for x, (_, s) in zip(at, pairs, strict=True)]
            other = next((float(x[0]) for x in found if x.numel()), None)
            if other is not None:
                return (
                    f"All is right, but where {name} belongs there are other numbers, such as "
                    f"{other:.3g}."
                )
    return ""


class TypesMade(Recorder):
    """The types of all tensors that operations return."""

    def __init__(self) -> None:
        super().__init__()
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.types.add(getattr(out, "dtype", None))
        return out


def rounded(asked: Asked) -> str:
    """Half precision on the way, or right to two digits or so, as half precision leaves it."""
    case = asked.wrong[0].case
    if case and callable(asked.answer) and not isinstance(asked.answer, RemoteAnswer):
        with TypesMade() as recorder:
            run(lambda: look(asked.answer, Question(case.args, case.kwargs)))
        if short := recorder.types & {torch.float16, torch.bfloat16}:
            return f"On the way numbers become {short.pop()}, which rounds them: stay in float32."
    far, count = asked.far, len(asked.calls)
    many = far if len(far) > 1 or 2 * len(far) >= count else []
    for digits, calls, tolerance in (("three", asked.wrong, 4e-3), ("two", many, COARSE)):
        if calls and all(_near(x.expected, x.seen, tolerance) for x in calls):
            return (
                f"The numbers are right to about {digits} digits only. Is something rounded, or "
                "computed in float16 or bfloat16?"
            )
    return ""


def _spoiled(asked: Asked) -> str:
    """Where they stand in the first result that has them, if that is not everywhere."""
    for call, number, right, seen in asked.results:
        spoiled = ~seen.isfinite().cpu() & (right.isfinite() | seen.isnan().cpu())
        if spoiled.any():
            places = apart(spoiled, axis_names(asked, seen, number))
            return f"; in the call '{call.label}' they stand at {places}" if places else ""
    return ""


def _near(expected: Any, seen: Any, tolerance: float) -> bool:
    """Are all numbers off by a small part of the largest in their row, as after rounding?"""
    pairs = tensors(expected, seen)
    return all(
        plain(e)
        and plain(s)
        and e.shape == s.shape
        and e.is_floating_point()
        and bool(((s.cpu() - e).abs() <= tolerance * (1e-2 + e.abs().amax(-1, keepdim=True))).all())
        for e, s in pairs
    )


def not_a_number(asked: Asked) -> str:
    """NaN or infinity where numbers belong, and nothing else wrong."""

    def spoiled(e: Any, s: Any) -> bool:
        comparable = plain(e) and plain(s) and s.shape == e.shape
        return comparable and bool(e.isfinite().all()) and not s.isfinite().all()

    wrong, count = asked.far, len(asked.calls)
    if wrong and len(wrong) < count and all(spoiled(*both) for both in off(wrong)):
        where = f"In {len(wrong)} of {count} calls there are NaN or infinite numbers: "
        return f"{where}{labels(wrong)}{' ...' * (len(wrong) > 3)}{_spoiled(asked)}."
    return ""
