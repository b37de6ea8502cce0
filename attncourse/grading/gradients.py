"""What can be said of an answer whose results are right and whose gradients are not."""

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain


def lost_gradient(expected: dict, seen: dict) -> str:
    """The inputs that no gradient reaches, in any call."""
    names = dict.fromkeys(
        what.rpartition("gradient of ")[2] for what in expected if ", gradient of " in what
    )

    def lost(name):
        of = [what for what in expected if what.endswith(f", gradient of {name}")]
        found = [seen[what] for what in of if what in seen and torch.any(expected[what])]
        there = (isinstance(g, Raised) or isinstance(g, Tensor) and g.any() for g in found)
        return bool(found) and not any(there)

    without = [name for name in names if lost(name)]
    names = " and ".join(without)
    return f"The results are right, but no gradient flows back to {names}." if names else ""


def cut_gradient(expected: dict, seen: dict) -> str:
    """A gradient that is another one, where all else is right."""
    wrong = [what for what in expected if what in seen and difference(expected[what], seen[what])]
    if not wrong or any(", gradient of " not in what for what in wrong):
        return ""
    found = [(what.rpartition("gradient of ")[2], seen[what]) for what in wrong]
    if not all(plain(g) for _, g in found):
        return ""
    for name, g in found:
        if not g.isfinite().all():
            return (
                f"The results are right, but the gradient of {name} has NaN or infinite numbers: something on its way "
                "back is infinite or divided by 0, even where its result is hidden."
            )
    return (
        f"The results are right, but the gradient of {found[0][0]} is not: a part of its way back is cut, as by detach, "
        "item, clamp or no_grad, or changed."
    )
