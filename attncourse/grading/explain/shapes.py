"""The right numbers in another form than was asked: packed, reordered, another type."""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain, same
from attncourse.grading.explain.asked import Asked, listed, off, tensors
from attncourse.grading.observe import run

JOINED = "axes are joined or split"


def packed(asked: Asked) -> str:
    """The right tensor in a list, in an array of numpy, or beside others."""
    wrong = asked.far
    if not wrong or not all(plain(x.expected) for x in wrong):
        return ""
    parcel, *others = {run(_parcel, x.expected, x.seen) for x in wrong}
    known = not others and isinstance(parcel, str) and parcel
    return f"The numbers are right, but this is {parcel}; return a tensor." if known else ""


def _parcel(expected: Tensor, seen: Any) -> str:
    """What the right tensor is wrapped in; '' where something else is wrong."""
    if isinstance(seen, tuple):
        beside = next((k for k, x in enumerate(seen) if same(expected, x)), None)
        if beside is not None:
            return f"{len(seen)} results, of which only number {beside + 1} is asked"
        kind = "a list"
    elif type(seen).__name__ == "ndarray":
        kind = "an array of numpy"
    else:
        return ""
    return kind if same(expected, torch.tensor(seen, dtype=expected.dtype)) else ""


def order(pairs: Sequence[tuple], alike: Callable[[Any, Any], bool]) -> tuple[int, ...]:
    """Where each right result stands among those seen, the same in all pairs; () if nowhere."""
    count = len(pairs[0][0]) if pairs else 0
    if not 1 < count <= 6 or any(len(x) != count for both in pairs for x in both):
        return ()
    tables = [[[alike(e, s) for s in seen] for e in right] for right, seen in pairs]
    return min(
        (p for p in permutations(range(count)) if all(t[k][p[k]] for t in tables for k in p)),
        key=lambda p: sum(k != at for k, at in enumerate(p)),
        default=(),
    )


def reordered(asked: Asked) -> str:
    """Several results that are all there, in one other order in all calls, right ones, too."""
    pairs = [(x.expected, x.seen) for x in asked.calls]
    several = all(isinstance(x, tuple) for both in pairs for x in both)
    moved = [k for k, at in enumerate(order(pairs, same) if several else ()) if k != at]
    names = [asked.exercise.results[k] for k in moved if asked.exercise.results]
    which = f"{listed(names)} " if names else ""
    return f"The results are right, but {which}stand in another order." if moved else ""


def reshaped(asked: Asked) -> str:
    """The right numbers with other axes, for the same reason in every call that is wrong."""
    wrong = off(asked.far)
    reasons = set.intersection(*(_other_axes(*both) for both in wrong)) if wrong else set()
    said = min(reasons, key=lambda reason: reason == JOINED, default="")  # the more exact one
    return f"The numbers are right, but {said}." if said else ""


def _other_axes(e: Any, s: Any) -> set[str]:
    if not (plain(e) and plain(s)) or e.numel() != s.numel() or s.dim() > 5:
        return set()
    reasons = set()
    if e.squeeze().shape == s.squeeze().shape and same(e.squeeze(), s.squeeze()):
        reasons.add(f"axes of size 1 are {'missing' if s.dim() < e.dim() else 'added or moved'}")
    if e.dim() == s.dim():
        orders = (p for p in permutations(range(e.dim())) if s.permute(p).shape == e.shape)
        if any(same(e, s.permute(p)) for p in orders):
            reasons.add("the axes stand in another order")
    elif same(e.flatten(), s.flatten()):
        reasons.add(JOINED)
    return reasons


def of_another_type(asked: Asked) -> str:
    """The right values as numbers where booleans are asked, or the other way round."""
    wrong = [both for x in asked.calls for both in tensors(x.expected, x.seen) if difference(*both)]
    if not wrong or not all(plain(e) and plain(s) and same(e, s) for e, s in wrong):
        return ""
    types = {(e.dtype, s.dtype) for e, s in wrong if torch.bool in (e.dtype, s.dtype)}
    if len(types) != 1:
        return ""
    ((e, s),) = types
    asks = "torch.bool is" if e == torch.bool else "numbers are"
    return f"The values are right, but their type is {s}; {asks} asked."
