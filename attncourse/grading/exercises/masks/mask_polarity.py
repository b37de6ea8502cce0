"""Exercise mask_polarity: four conventions, one meaning."""

import math

import torch

from attncourse.grading.exercise import Asked, Calls, Case, Exercise, Raised, seeded

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
    attend[1], hidden[0, 0, 2] = False, True  # rows in which all is hidden
    powers = 2**8, -(2**8), 2**16, -(2**16), 2**32, -(2**63)  # the last one has no abs
    integers = torch.tensor([-1, 0, 1, 2, *powers])
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


def entries(some: torch.Tensor) -> str:
    """The entries of a mask that differ, those near 0 first."""
    found = sorted({*some.tolist()}, key=abs)
    return ", ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in found)


def conventions(asked: Asked) -> str:
    """What each convention gets wrong, and the unknown names that do not raise."""
    known = [x for x in asked.wrong if not isinstance(x.expected, Raised)]
    if len(known) > len(asked.shaped) or any(x.seen.dtype != torch.bool for x in known):
        return ""
    says = []
    for call in known:
        mask, name = call.case.args
        wrong = call.seen != call.expected
        hides, shows = (entries(mask[wrong & (call.seen == x)]) for x in (False, True))
        does = f"hides {hides}" * bool(hides), f"shows {shows}" * bool(shows)
        says.append(f'"{name}" {" and ".join(filter(None, does))}, which is wrong.')
    silent = [f'"{x.case.args[1]}"' for x in asked.wrong if isinstance(x.expected, Raised)]
    says += [f"No ValueError is raised for {', '.join(silent)}."] * bool(silent)
    return " ".join(dict.fromkeys(says))


EXERCISE = Exercise(
    name="mask_polarity",
    answer="to_attend",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(conventions,),
)
