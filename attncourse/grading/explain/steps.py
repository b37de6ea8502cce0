"""Up to which step of the right answer is an answer right?

The answer is called once more while all tensors that it makes are recorded. The right answer is a
chain of named values (`attncourse.grading.dataflow`); a value is made where one of those tensors
has its numbers, or where each of its samples, heads or rows has a tensor of its own.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.allocations import Recorder
from attncourse.grading.answer import RemoteAnswer
from attncourse.grading.compare import Raised, plain, same
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import run

MOST = 1_000_000  # numbers that are kept of one call
NEAR, ROUGH = 1e-5, 1e-2
FEWEST = 3  # numbers that can tell a value
ALL_MADE = "look at what comes after them, up to what is returned."


class TensorsMade(Recorder):
    """Keeps all tensors that operations return, by how many numbers they have, then by shape."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, dict] = defaultdict(lambda: defaultdict(list))
        self.count = 0
        self._joined: dict[tuple, Tensor] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if plain(x) and self.count + x.numel() <= MOST:
                self.count += x.numel()
                self.kept[x.numel()][x.shape].append(_finite(x).clone())
        return out

    def has(self, value: Tensor) -> bool:
        """Is there a tensor of these numbers, in the same places if it has the same shape?

        Whole numbers must stand in the same order in any shape: many tensors hold 0 to n.
        """
        numbers = value.flatten()
        whole = bool((numbers == numbers.round()).all())
        for shape in self.kept.get(value.numel(), ()):
            ordered = whole or shape == value.shape
            wanted = numbers if ordered else numbers.sort().values
            if _close(self._together(shape, not ordered), wanted).any():
                return True
        return False

    def _together(self, shape: torch.Size, in_order: bool) -> Tensor:
        """All tensors of a shape as rows, each of them sorted where only the numbers count."""
        if (shape, in_order) not in self._joined:
            rows = torch.stack([x.flatten() for x in self.kept[shape.numel()][shape]])
            self._joined[shape, in_order] = rows.sort().values if in_order else rows
        return self._joined[shape, in_order]


def _finite(x: Tensor) -> Tensor:
    return x.detach().double().nan_to_num(7e77, 1e300, -1e300)


def _close(rows: Tensor, wanted: Tensor) -> Tensor:
    """Which of the rows have these numbers; small ones have to be near by their own size, too."""
    size, off = wanted.abs().amax().clamp(max=1.0) if wanted.numel() else 1.0, (rows - wanted).abs()
    own = (off <= ROUGH * wanted.abs()) | (wanted == 0)
    return (own & (off <= NEAR * (size + wanted.abs()))).all(-1)


def missing_step(asked: Asked, right: Sequence[int] = ()) -> str:
    """The last value of the chain that is made, and the first missing one.

    Args:
        right: the places of results that are right: what they are made of is not told.
    """
    gap = _gap(asked)
    if gap is None:
        return ""
    done, place = gap
    called = f"in the call '{asked.largest.label}' are {asked.right[done].called}"
    if place == len(asked.right):
        if right or len(asked.shaped) < len(asked.wrong):
            return ""  # what has another shape may have lost it before
        return f"Among what the answer makes {called}, with the right numbers; {ALL_MADE}"
    missing = asked.right[place].called
    if right and _feeds(asked, missing, right):
        return ""
    return (
        f"Among what the answer makes {called}, with the right numbers. One right way goes on "
        f"with {missing}."
    )


def _there(asked: Asked) -> list[bool | None]:
    """Which of the named values are made; [] where nothing is known of them."""
    if "there" not in asked.memory:
        asked.memory["there"] = _look(asked)
    return asked.memory["there"]


def _look(asked: Asked) -> list[bool | None]:
    here = not isinstance(asked.answer, RemoteAnswer) and callable(asked.answer)
    if not asked.right or not here or asked.largest is None:
        return []
    args = [x.clone() if isinstance(x, Tensor) else x for x in asked.largest.args]
    with torch.no_grad(), TensorsMade() as recorder:
        given = run(lambda: asked.answer(*args, **asked.largest.kwargs))
    if isinstance(given, Raised):
        return []
    known = [_finite(x).flatten().sort().values for x in args if plain(x)]
    there = [found(value.number, recorder, known) for value in asked.right]
    # What has a value in each of several steps is right where all of them are.
    wrong = {x.called for x, made in zip(asked.right, there, strict=True) if made is False}
    return [made and x.called not in wrong for x, made in zip(asked.right, there, strict=True)]


def _gap(asked: Asked) -> tuple[int, int] | None:
    """The places of the last value that is made and of the first missing one; None without any.

    A value is not missing where one behind it is made that needs it: the answer goes another way.
    """
    there = _there(asked)
    if True not in there:
        return None
    last = len(there) - 1 - there[::-1].index(True)
    apart = (k for k in range(last) if there[k] is False and not _needed(asked, k, there))
    behind = (k for k in range(last + 1, len(there)) if there[k] is False)
    return last, next(apart, next(behind, len(there)))


def _feeds(asked: Asked, called: str, results: Sequence[int]) -> bool:
    """Does one of these results depend on a value?"""
    changed, case = getattr(asked.exercise.right, "changed", None), asked.largest
    if changed is None or case is None:
        return False
    one, other = (
        run(lambda f=f: f(*case.args, **case.kwargs))
        for f in (asked.exercise.right, changed(called))
    )
    several = isinstance(one, tuple) and isinstance(other, tuple)
    return several and any(not same(one[k], other[k]) for k in results)


def _needed(asked: Asked, place: int, there: list[bool | None]) -> bool:
    """Is this value found in another place, or does a value that is made behind it depend on it?"""
    called, behind = asked.right[place].called, range(place + 1, len(there))
    changed = getattr(asked.exercise.right, "changed", None)
    if (
        changed is None
        or not isinstance(asked.right[place].number, Tensor)
        or any(x.called == called for x, t in zip(asked.right, there, strict=True) if t)
    ):
        return True
    others = run(lambda: changed(called).values(*asked.largest.args, **asked.largest.kwargs))
    if isinstance(others, Raised):
        return True  # nothing behind can be made of other numbers
    return any(there[k] and not same(asked.right[k].number, others[k].number) for k in behind)


def found(value: Any, made: TensorsMade, known: list[Tensor]) -> bool | None:
    """Is this value made? None where too few numbers tell it, or where it is one of the inputs."""
    if not plain(value):
        return False
    number = _finite(value)
    ordered = number.flatten().sort().values
    if len(ordered.unique_consecutive()) < FEWEST or any(
        x.shape == ordered.shape and _close(x, ordered) for x in known
    ):
        return None
    if made.has(number):
        return True
    slices = [number.unbind(d) for d in range(number.dim()) if 1 < number.size(d) <= 64]
    if number.dim() and number.size(-1) > 1:  # a last column that is kept apart
        slices.append((number[..., :-1], number[..., -1]))
    if number.dim() > 2:
        slices.append(number.flatten(0, 1).unbind(0))
    return any(all(map(made.has, parts)) for parts in slices if parts[0].dim())
