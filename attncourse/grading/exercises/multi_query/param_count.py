"""Exercise param_count: how many numbers does a multi-query layer learn?"""

import torch
from torch import nn

from attncourse.grading.compare import Close, difference
from attncourse.grading.exercise import Asked, Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.formula import formula

WIDEST = 49_049, 49


def definition(embed_dim, num_heads, bias):
    """The four projections, built without memory and counted."""
    head_dim = embed_dim // num_heads
    widths = embed_dim, head_dim, head_dim, embed_dim  # of query, key, value, output
    layers = nn.ModuleList(nn.Linear(embed_dim, w, bias, device="meta") for w in widths)
    return sum(p.numel() for p in layers.parameters())


def cases(seed: int) -> list[Case]:
    """An ordinary layer, one beyond 2**31 numbers, a prime number of heads, one head, one drawn."""
    h, w = torch.randint(2, 30, (2,), generator=seeded(seed)).tolist()
    sizes = (512, 8), WIDEST, (64, 2), (15, 5), (7, 1), (h * w, h)
    calls = [(*size, bias) for size in sizes for bias in (True, False)]
    return [Case("embed_dim {}, num_heads {}, bias {}".format(*call), call) for call in calls]


def right(embed_dim, num_heads, bias):
    return sum((embed_dim + bias) * 2 * width for width in (embed_dim, embed_dim // num_heads))


TERMS = {
    "D^2": lambda d, h: d * d, "D W": lambda d, h: d * d // h, "W^2": lambda d, h: (d // h) ** 2,
    "D^2 H": lambda d, h: d * d * h, "D H": lambda d, h: d * h, "D": lambda d, h: d,
    "W": lambda d, h: d // h, "H": lambda d, h: h, "1": lambda d, h: 1,
}  # fmt: skip


def apart(numbers: list) -> tuple[list[float], list[float]]:
    """The weights of each layer, and its biases; calls come in pairs, with and without."""
    counts = [float(x.value) for x in numbers]
    pairs = zip(counts[::2], counts[1::2], strict=True)
    return counts[1::2], [both - weights for both, weights in pairs]


def counted(asked: Asked) -> str:
    """What the weights and the biases are counted as."""
    says, pairs = [], zip(asked.calls[::2], asked.calls[1::2], strict=True)
    calls = [x for pair in pairs if all(isinstance(y.seen, Close) for y in pair) for x in pair]
    if len(calls) < 8 or any(x.seen.value.dim() for x in calls):
        return ""
    if all(x.case.args[:2] == WIDEST for x in calls if difference(x.expected, x.seen)):
        return "Only the widest layer is wrong: 32 bits are too few for its count, as of float32."
    terms = {name: [of(*x.case.args[:2]) for x in calls[::2]] for name, of in TERMS.items()}
    numbers = apart([x.seen for x in calls]), apart([x.expected for x in calls])
    for what, seen, right in zip(("weights", "biases"), *numbers, strict=True):
        found = formula(seen, terms) or f"{seen[0]:,.10g} where D is 512 and H is 8"
        wrong = any(abs(a - b) > 1e-3 for a, b in zip(seen, right, strict=True))
        says.append(f"the {what} are counted as {found}" if wrong else f"the {what} are right")
    return (
        f"With D = embed_dim, H = num_heads and W = D / H, {', and '.join(says)}. A projection has "
        "inputs x outputs weights and, with bias, one bias for each output; key and value have one "
        "head each."
    )


EXERCISE = Exercise(
    name="param_count",
    judge=Counts(definition, cases, floats=True),
    right=right,
    explain=(counted,),
    ideas=[
        Mistake("1 // H is 0 for every H above 1; divide at the end.",
                lambda d, h, bias: 2 * (d + bias) * d * (1 + 1 // h)),
    ],
)  # fmt: skip
