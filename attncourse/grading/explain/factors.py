"""Is all that is wrong a multiple of what it should be?"""

from itertools import product
from typing import Any

import torch

from attncourse.grading.compare import same
from attncourse.grading.explain.asked import Asked, labels, off, sizes_of, tensors
from attncourse.grading.observe import run

POWERS = {0.5: "sqrt({})", 1: "{}", -0.5: "1 / sqrt({})", -1: "1 / {}"}


def multiplied(asked: Asked) -> str:
    """All that is wrong is a multiple of what it should be: by one factor, or by a size."""
    wrong = asked.far
    if len(wrong) < 2:
        return ""
    factor = one_factor(off(wrong))
    how = _by_a_size(asked, wrong) if factor is None else f"{factor:.4g}"
    if not how:
        return ""
    calls = len(asked.calls)
    where = f", in {len(wrong)} of {calls} calls: {labels(wrong)}" if len(wrong) < calls else ""
    return f"{_which(asked, wrong)} {how} times what they should be{where}."


def _which(asked: Asked, wrong: list) -> str:
    """The results that are wrong, and all of them by the factor, as the beginning of a sentence."""
    names, results = asked.exercise.results, [tensors(*call[2:]) for call in wrong]
    off_ones = {k for both in results for k, x in enumerate(both) if not same(*x)}
    if len(names) != len(results[0]) or len(off_ones) == len(names):
        return "The numbers are"
    return f"Of {' and '.join(names[k] for k in sorted(off_ones))} the numbers are"


def _by_a_size(asked: Asked, wrong: list) -> str:
    """A power of a whole number, or of the size of an axis, that is the factor of each call."""
    factors = [one_factor(off([call])) for call in wrong]
    if any(x is None for x in factors) or len(set(factors)) < 2 or not all(x.case for x in wrong):
        return ""
    sizes = [dict(sizes_of(asked.arguments, x.case)) for x in wrong]
    for name, (power, how) in product(sizes[0], POWERS.items()):
        each = zip(factors, (x.get(name, 0) for x in sizes), strict=True)
        if all(size > 0 and abs(f / size**power - 1) < 1e-3 for f, size in each):
            return how.format(name)
    return ""


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
    largest = e.masked_fill(~e.isfinite(), 0.0).abs().argmax()
    factor = float(s.flatten()[largest] / e.flatten()[largest])
    told = abs(factor) > 1e-9 and abs(factor - 1) > 1e-3
    return factor if told and torch.allclose(s, e * factor, rtol=1e-3, atol=1e-6) else None
