"""Which tokens stay in a cache with sinks, and which an answer has kept."""

import torch

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of


def join(old, new):
    """Old tokens, and new ones behind them."""
    return torch.cat([old, new], dim=2)


def stay(m, n, s, w):
    """The right list: of m + n tokens the first s, and the last w."""
    return [j for j in range(m + n) if j < s or j >= m + n - w]


def numbers(found, every) -> list | None:
    """Which of all tokens these are; "?" is none of them."""
    if not plain(found) or found.shape[:2] + found.shape[3:] != every.shape[:2] + every.shape[3:]:
        return None
    if found.size(2) > 2 * every.size(2):  # a comparison with all tokens would be larger still
        return None
    same = (found[:, :, :, None] == every[:, :, None]).flatten(4).all(-1).all(0).all(0)
    return [int(row.int().argmax()) if row.any() else "?" for row in same]


class Kept(Calls):
    """`Calls` that reads which tokens an answer has kept."""

    def notice(self, expected, seen, seed: int) -> str:
        for case in cases_of(self, seed):
            got = seen.get(f"{case.label}, output")
            keys, values, new_keys, new_values, *sizes = case.args
            if not isinstance(got, tuple) or len(got) != 2:
                return ""
            right = stay(keys.size(2), new_keys.size(2), *sizes)
            pairs = zip(got, (join(keys, new_keys), join(values, new_values)), strict=True)
            for name, tokens in zip(("keys", "values"), (numbers(*x) for x in pairs), strict=True):
                if tokens is None:
                    return ""
                if tokens != right:
                    return f"{case.label}: tokens {right} should be there; the {name} are those of {tokens}."
        return ""
