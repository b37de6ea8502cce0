"""Which formula gives these counts? The shortest sum of known terms."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import torch

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
