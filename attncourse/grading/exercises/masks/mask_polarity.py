"""Exercise mask_polarity: four conventions, one meaning."""

import math

import torch

from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Asked, Calls, Case, Exercise, Mistake, seeded

VISIBLE = {
    "attend": lambda x: x, "hidden": lambda x: not x,
    "zero_hides": lambda x: x != 0, "additive": lambda x: x > -math.inf,
}  # fmt: skip

# Finite, so they hide nothing; each is the largest that some threshold takes as hidden.
LARGE_BIASES = -200.0, -1e4, -1e9, -torch.finfo().max
# Names that are no convention; each is one for some careless comparison.
UNKNOWN = "True hides", "Attend", "hid", "zero", "additive ", ""


def definition(mask, convention):
    """One entry at a time."""
    if convention not in VISIBLE:
        raise ValueError(f"unknown convention {convention!r}")
    return torch.tensor([VISIBLE[convention](x) for x in mask.flatten().tolist()]).view(mask.shape)


def cases(seed: int) -> list[Case]:
    """Every convention on a shape of its own; integers and biases beyond 0 and 1, shuffled."""
    g = seeded(seed)
    attend, hidden = (torch.rand(shape, generator=g) < 0.5 for shape in ((3, 5), (2, 1, 5, 7)))
    integers = torch.tensor([-1, 0, 1, 2, *(s * 2**k for k in (8, 16, 32) for s in (1, -1))])
    biases = torch.tensor([-math.inf, 0.0, 2.5, -2.5, 1.0, 1e9, *LARGE_BIASES])
    integers, biases = (x[torch.randperm(10, generator=g)] for x in (integers, biases))
    masks = dict(zip(VISIBLE, (attend, hidden, integers, biases.view(2, 5)), strict=True))
    masks |= {name: attend if k else integers for k, name in enumerate(UNKNOWN)}
    finite = Case("biases that are all finite", (torch.tensor([-3.0, 0.0, 0.5]), "additive"))
    return [*(Case(f'convention "{name}"', (x, name)) for name, x in masks.items()), finite]


def right(mask, convention):
    if convention == "attend":
        return mask
    if convention == "hidden":
        return ~mask
    if convention == "zero_hides":
        return mask != 0
    if convention == "additive":
        return mask != -math.inf
    raise ValueError(f"unknown convention {convention!r}")


def told(name, mask, expected, seen) -> str:
    """What is wrong with the mask that is returned for a convention."""
    if not plain(seen):
        return f'"{name}" does not return a tensor'
    if seen.shape != expected.shape:
        return f'"{name}" returns shape {tuple(seen.shape)} for a mask of {tuple(expected.shape)}'
    if seen.dtype != torch.bool:
        return f'"{name}" returns {seen.dtype} instead of torch.bool'
    at = tuple((seen != expected).nonzero()[0].tolist())
    entry = mask[at].item()
    entry = f"{entry:g}" if mask.is_floating_point() else entry
    return f'"{name}" takes {entry} as {"hidden" if expected[at] else "visible"}'


def conventions(asked: Asked) -> str:
    """What each convention gets wrong, and the unknown names that do not raise."""
    if asked.raised and not any(isinstance(x.expected, torch.Tensor) for x in asked.wrong):
        return ""
    found = []
    for _, case, expected, seen in asked.calls:
        mask, name = case.args
        if isinstance(expected, torch.Tensor) and difference(expected, seen):
            found.append(told(name, mask, expected, seen))
    silent = [x.case.args[1] for x in asked.wrong if not isinstance(x.expected, torch.Tensor)]
    if silent:
        names = ", ".join(f'"{name}"' for name in silent)
        found.append(f"no ValueError is raised for {names}")
    says = "; ".join(dict.fromkeys(found))
    return f"{says[:1].upper()}{says[1:]}." if says else ""


EXERCISE = Exercise(
    name="mask_polarity",
    answer="to_attend",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(conventions,),
    ideas=[
        Mistake(
            "~ flips bits of integers: ~0 is -1, ~1 is -2, both are True.",
            lambda mask, name: right(~mask if name == "zero_hides" else mask, name),
        ),
    ],
)  # fmt: skip
