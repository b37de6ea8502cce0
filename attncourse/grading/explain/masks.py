"""Boolean results: which query reads which key, and should not?"""

import torch
from torch import Tensor

from attncourse.grading.axes import at
from attncourse.grading.explain.asked import Asked, axis_names


def inverted(asked: Asked) -> str:
    """True where False belongs, in all calls."""
    turned = [
        e.dtype == s.dtype == torch.bool and torch.equal(~e, s.cpu())
        for _, _, e, s in asked.results
    ]
    whole = bool(turned) and len(asked.shaped) == len(asked.calls)
    return "True and False are exchanged, in every place." if whole and all(turned) else ""


def wrong_pair(asked: Asked) -> str:
    """The first place at which a boolean result is wrong, by the names of its axes."""
    for _, number, right, seen in asked.results:
        if right.dtype == seen.dtype == torch.bool and not torch.equal(right, seen.cpu()):
            return _first_wrong(asked, right, seen.cpu(), number)
    return ""


def _first_wrong(asked: Asked, right: Tensor, seen: Tensor, number: int) -> str:
    wrong = right != seen
    *where, i, j = (
        wrong.nonzero()[0].tolist() if right.dim() > 1 else (None, *wrong.nonzero()[0].tolist())
    )
    letters = axis_names(asked, right, number)
    told = seen.flatten()[wrong.flatten()][0]
    count = f"Of {wrong.numel()} places {int(wrong.sum())} are wrong, for example"
    if right.dim() < 2 or letters[-2:] != ["n", "m"]:
        there = ", ".join(map(at, letters, wrong.nonzero()[0].tolist()))
        return f"{count} {there}: it is {bool(told)}, and should be {not told}."
    there = "".join(f"{at(x, k)}, " for x, k in zip(letters, where, strict=False))
    reads = f"reads key {j}, and should not" if told else f"does not read key {j}, and should"
    return f"{count} {there}query {i} {reads}."
