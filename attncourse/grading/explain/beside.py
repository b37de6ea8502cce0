"""The results are right: is a way back cut, an input changed, or too much made?"""

import torch
from torch import Tensor

from attncourse.grading.compare import Described, Raised, plain
from attncourse.grading.explain.asked import GRADIENT, Asked
from attncourse.grading.observe import FINITE

BUT = "The results are right, but"
KEPT = ", inputs left unchanged"


def changed_input(asked: Asked) -> str:
    """The inputs that are not what they were."""
    changed = [str(asked.seen[what]) for what in asked.differs if what.endswith(KEPT)]
    parts = [x.removeprefix("no, ").removesuffix(" changed").split(" and ") for x in changed]
    names = sorted({name for part in parts for name in part})
    if asked.wrong or not names:
        return ""
    which = "an input is" if len(names) == 1 else "inputs are"
    return f"{BUT} {which} changed in place: {' and '.join(names)}."


def lost_gradient(asked: Asked) -> str:
    """The inputs that no gradient reaches, in any call."""
    found: dict[str, list[bool]] = {}
    for what, right in asked.expected.items():
        if GRADIENT in what and what in asked.seen and plain(right) and torch.any(right):
            g = asked.seen[what]
            there = isinstance(g, Raised) or isinstance(g, Tensor) and bool(g.any())
            found.setdefault(what.rpartition(GRADIENT)[2], []).append(there)
    without = " and ".join(name for name, there in found.items() if not any(there))
    return f"{BUT} no gradient flows back to {without}." if without and not asked.wrong else ""


def cut_gradient(asked: Asked) -> str:
    """A gradient that is another one, where all else is right."""
    found = [(what.rpartition(GRADIENT)[2], asked.seen[what]) for what in asked.differs]
    gradients = bool(found) and all(GRADIENT in what for what in asked.differs)
    if not gradients or any(isinstance(g, Raised) for _, g in found):
        return ""
    for name, g in found:
        if name.endswith(FINITE) or plain(g) and not g.isfinite().all():
            return (
                f"{BUT} the gradient of {name.removesuffix(FINITE)} has NaN or infinite numbers: "
                "something on its way back is infinite or divided by 0, even where its result is "
                "hidden."
            )
    if not all(plain(g) for _, g in found):
        return ""
    return (
        f"{BUT} the gradient of {found[0][0]} is not: a part of its way back is cut, as by detach, "
        "item, clamp or no_grad, or changed."
    )


def too_large(asked: Asked) -> str:
    """What is made on the way is too large, and what to do instead."""
    judge = asked.exercise.judge
    found = asked.seen.get(getattr(judge, "title", ""))
    if asked.wrong or not isinstance(found, Described):
        return ""
    return f"{BUT} too many numbers are made on the way. {judge.instead}".strip()
