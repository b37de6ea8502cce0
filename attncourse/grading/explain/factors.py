"""Is all that is wrong a multiple of what it should be?"""

from itertools import product
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import same
from attncourse.grading.explain.asked import Asked, labels, off, tensors
from attncourse.grading.observe import run

POWERS = {0.5: "sqrt({})", 1: "{}", -0.5: "1 / sqrt({})", -1: "1 / {}"}


def multiplied(asked: Asked) -> str:
    """All that is wrong is a multiple of what it should be, with one factor everywhere."""
    wrong = asked.far
    factor = one_factor(off(wrong))
    if len(wrong) < 2 or _one_is_right(wrong):
        return ""
    if factor is None:
        return _by_a_size(asked, wrong)
    calls = len(asked.calls)
    where = f", in {len(wrong)} of {calls} calls: {labels(wrong)}" if len(wrong) < calls else ""
    return f"The numbers are {factor:.4g} times what they should be{where}."


def _by_a_size(asked: Asked, wrong: list) -> str:
    """Each call has a factor of its own, and that is a power of the size of an axis."""
    factors = [one_factor(off([call])) for call in wrong]
    if any(x is None for x in factors) or len(set(factors)) < 2 or not all(x.case for x in wrong):
        return ""
    for at, name in enumerate(asked.arguments):
        given = [x.case.args[at] for x in wrong if at < len(x.case.args)]
        if len(given) < len(wrong) or not all(isinstance(x, Tensor) for x in given):
            continue
        for axis, (power, how) in product(range(given[0].dim()), POWERS.items()):
            sizes = [x.size(axis) for x in given if x.dim() == given[0].dim()]
            if len(sizes) == len(wrong) and all(
                abs(f / size**power - 1) < 1e-3 for f, size in zip(factors, sizes, strict=True)
            ):
                size = how.format(f"{name}.size({axis})")
                return f"In every wrong call the numbers are {size} times what they should be."
    return ""


def _one_is_right(wrong: list) -> bool:
    """Is one of several results right in all of these calls? Then it is not all numbers."""
    right = [{k for k, x in enumerate(tensors(*call[2:])) if same(*x)} for call in wrong]
    return bool(set.intersection(*right))


def one_factor(pairs: list[tuple[Any, Any]]) -> float | None:
    """The one factor by which all of these results are off; None where there is none."""
    found = [run(_factor, *both) for both in pairs]
    if not found or not all(isinstance(x, float) for x in found):
        return None
    if any(abs(x / found[0] - 1) > 1e-4 for x in found) or abs(found[0] - 1) < 1e-3:
        return None
    return found[0]


def _factor(e: Any, s: Any) -> float | None:
    """``s / e``, if it is the same number everywhere, and neither 0 nor 1."""
    e, s = (torch.as_tensor(x).double() for x in (e, s))
    if e.shape != s.shape:
        return None
    largest = e.abs().argmax()
    factor = float(s.flatten()[largest] / e.flatten()[largest])
    told = abs(factor) > 1e-9 and abs(factor - 1) > 1e-3
    return factor if told and torch.allclose(s, e * factor, rtol=1e-3, atol=1e-6) else None
