"""Which product of known factors is a count? For sizes, bytes and operations."""

from collections.abc import Mapping, Sequence
from itertools import product as choices

import torch


def product(counts: Sequence[float], *groups: Mapping[str, Sequence[float] | float]) -> str:
    """``"batch * layers * 2"`` where this was counted in every call, or rounded down; '' else.

    Args:
        counts: one number a call.
        groups: of each group one factor is taken, by its name; those that people take stand first.
            A factor is a number, or one number a call; the name of what is left out is ''.
    """
    seen = torch.tensor(counts, dtype=torch.float64)
    tables = [
        torch.stack([torch.as_tensor(x, dtype=torch.float64).expand_as(seen) for x in g.values()])
        for g in groups
    ]
    every = torch.ones(1, len(seen), dtype=torch.float64)
    for table in tables:
        every = (every[:, None] * table).flatten(0, 1)
    fits = (((every - seen).abs() <= 1e-9 * seen.abs()) | (every.floor() == seen)).all(-1)
    if not seen.any() or not fits.any():
        return ""
    names = [list(group) for group in groups]
    several = [x for x, fit in zip(choices(*names), fits.tolist(), strict=True) if fit]
    places = [[group.index(x) for group, x in zip(names, one, strict=True)] for one in several]
    nearest = min(range(len(several)), key=lambda k: sum(place > 0 for place in places[k]))
    return " * ".join(filter(None, several[nearest])) or "1"
