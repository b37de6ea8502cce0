"""Claims about how all that is wrong is wrong."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fresh.claims import NUMBER, claim, number
from fresh.evidence import Evidence, alike, pairs, parts


def wrong_pairs(evidence: Evidence) -> list[tuple[Any, Any]]:
    both = [x for call in evidence.wrong for x in pairs(call)]
    return [(a, b) for a, b in both if not alike(a, b)]


def _tensors(evidence: Evidence, holds: Callable) -> bool | None:
    """Does it hold of all that is wrong?"""
    both = wrong_pairs(evidence)
    return bool(both) and all(
        isinstance(a, Tensor) and isinstance(b, Tensor) and holds(a.double(), b.detach().double())
        for a, b in both
    )


def _flat(x: Tensor) -> Tensor:
    return x.flatten().nan_to_num(7e7, 1e30, -1e30)


@claim(rf"^The numbers are {NUMBER} times what they should be")
def _times(found, evidence):
    factor = number(found[1])
    both = [(torch.as_tensor(x).double() for x in pair) for pair in wrong_pairs(evidence)]
    return bool(both) and all(alike(a * factor, b, 5e-3) for a, b in both)


@claim(r"but the axes stand in another order")
def _order(found, evidence):
    def moved(a, b):
        return sorted(a.shape) == sorted(b.shape) and alike(_flat(a).sort()[0], _flat(b).sort()[0])

    return _tensors(evidence, moved)


@claim(r"but axes of size 1 are (missing|added or moved)")
def _ones(found, evidence):
    return _tensors(evidence, lambda a, b: a.shape != b.shape and alike(_flat(a), _flat(b)))


@claim(r"but axes are joined or split")
def _joined(found, evidence):
    return _tensors(evidence, lambda a, b: a.dim() != b.dim() and alike(_flat(a), _flat(b)))


@claim(r"stand in another order\.$")
def _results_moved(found, evidence):
    if "axes" in found.string:
        return None
    moved = [(parts(c.right), parts(c.seen)) for c in evidence.wrong]
    return all(len(a) == len(b) and all(any(alike(x, y) for y in b) for x in a) for a, b in moved)


@claim(r"but their type is torch\.(\w+)")
def _type(found, evidence):
    return _tensors(evidence, lambda a, b: alike(a, b)) and any(
        isinstance(b, Tensor) and str(b.dtype) == f"torch.{found[1]}"
        for _, b in wrong_pairs(evidence)
    )


@claim(r"^In \d+ of \d+ calls there are NaN or infinite numbers: ")
def _nan(found, evidence):
    return _tensors(evidence, lambda a, b: bool(a.isfinite().all()) and not b.isfinite().all())


@claim(r"Of (\d+) (?:pairs|places) (\d+) (?:differ|are wrong)")
def _count(found, evidence):
    told = [(int(found[1]), int(found[2]))]
    return any(
        (a.numel(), int((a != b).sum())) in told
        for a, b in wrong_pairs(evidence)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape
    )
