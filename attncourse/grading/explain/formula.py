"""Which formula gives these counts? The shortest sum of known terms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from numbers import Real
from typing import Any

import torch

from attncourse.grading.explain.asked import Asked

MOST_TERMS, MOST_TIMES = 4, 64


def formula(counts: Sequence[float], terms: Mapping[str, Sequence[float]]) -> str:
    """``"2 D^2 + 2 D W"`` where that is what was counted in every call; '' where no short sum is.

    Args:
        counts: one number a call.
        terms: what each term is in these calls, by its name; "1" is 1.
    """
    seen = torch.tensor(counts, dtype=torch.float64)
    if not seen.any():
        return "0"
    size = seen.abs().clamp(min=1)  # of each call: small numbers count as much as large ones
    table = {name: torch.tensor(x, dtype=torch.float64) / size for name, x in terms.items()}
    for count in range(1, MOST_TERMS + 1):
        for names in combinations(table, count):
            columns = torch.stack([table[name] for name in names], 1)
            times = torch.linalg.lstsq(columns, (seen / size)[:, None]).solution
            whole = times.round()
            short = bool(whole.all()) and bool((whole.abs() <= MOST_TIMES).all())
            if short and torch.allclose((columns @ whole)[:, 0], seen / size, rtol=1e-9):
                return _written(zip(whole.flatten().int().tolist(), names, strict=True))
    return ""


def _written(parts: Iterable[tuple[int, str]]) -> str:
    """``[(2, "D^2"), (-1, "D")]`` as "2 D^2 - D"."""
    text = ""
    for times, name in parts:
        sign = "-" if times < 0 else "+"
        number = "" if abs(times) == 1 and name != "1" else f"{abs(times)} "
        text += f" {sign} {number}{name if name != '1' else ''}".rstrip()
    return text.removeprefix(" + ").removeprefix(" ")


def off_by(terms: Callable[..., dict[str, float]], where: str) -> Callable[[Asked], str]:
    """An explainer of counts: one formula for all that an answer gives, or for its errors.

    Args:
        terms: of a call, by their names; made of its arguments.
        where: what the letters stand for: "n tokens, g of them global".
    """

    def explainer(asked: Asked) -> str:
        calls = [(call.expected, call.seen) for call in asked.calls]
        if not calls or not all(_counts(seen) for _, seen in calls):
            return ""
        each = [terms(*call.case.args) for call in asked.calls]
        table = {name: [float(x[name]) for x in each] for name in each[0]}
        right, seen = (list(map(float, side)) for side in zip(*calls, strict=True))
        if given := formula(seen, table):
            return f"In every call the answer is {given} ({where})."
        if right[0] and not seen[0] % right[0] and [x * seen[0] / right[0] for x in right] == seen:
            return f"In every call the answer is {seen[0] / right[0]:g} times the right number."
        errors = [b - a for a, b in zip(right, seen, strict=True)]
        error = formula(errors, table) if any(errors) else ""
        return f"In every call the answer less the right number is {error} ({where})." * bool(error)

    return explainer


def _counts(seen: Any) -> bool:
    return isinstance(seen, Real) and not isinstance(seen, bool)
