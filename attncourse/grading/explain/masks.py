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
    place = wrong.nonzero()[0].tolist()
    *where, i, j = place if right.dim() > 1 else (None, *place)
    letters = axis_names(asked, right, number)
    told = bool(seen.flatten()[wrong.flatten()][0])
    pairs = right.dim() > 1 and letters[-2:] == ["n", "m"]
    few = int(wrong.sum())
    count = f"Of {wrong.numel()} places {few} {'is' if few == 1 else 'are'} wrong"
    if few > 1 and (seen | right).equal(seen if told else right):  # all of them in the same way
        word = ("hidden", "visible")[told] if pairs else told
        count += f", all of them {word} and should not be"
    if not pairs:
        there = ", ".join(map(at, letters, place))
        return f"{count}. For example {there}: it is {told}, and should be {not told}."
    there = "".join(f"{at(x, k)}, " for x, k in zip(letters, where, strict=False))
    which = "its own" if i == j else "a later one" if j > i else "an earlier one"
    which = f"{j}, {which}" if right.size(-2) == right.size(-1) else f"{j}"
    reads = f"reads key {which}, and should not"
    reads = reads if told else f"does not read key {which}, but should"
    return f"{count}. For example {there}query {i} {reads}."
