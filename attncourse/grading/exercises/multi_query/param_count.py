"""Exercise param_count: how many numbers does a multi-query layer learn?"""

import torch
from torch import nn

from attncourse.grading.exercise import Asked, Case, Counts, Exercise, seeded
from attncourse.grading.explain.formula import formula


def definition(embed_dim, num_heads, bias):
    """The four projections, built without memory and counted."""
    head_dim, odd = divmod(embed_dim, num_heads)
    if odd:
        raise ValueError("heads must be whole")
    widths = embed_dim, head_dim, head_dim, embed_dim  # of query, key, value, output
    layers = nn.ModuleList(nn.Linear(embed_dim, w, bias, device="meta") for w in widths)
    return sum(p.numel() for p in layers.parameters())


def cases(seed: int) -> list[Case]:
    """An ordinary layer, one beyond 2**24 numbers, which may be built, small ones, one drawn."""
    h, w = torch.randint(2, 30, (2,), generator=seeded(seed)).tolist()
    sizes = (512, 8), (4098, 2), (98, 49), (64, 2), (15, 5), (7, 1), (h * w, h)
    calls = [(*size, bias) for size in sizes for bias in (True, False)]
    return [Case("embed_dim {}, num_heads {}, bias {}".format(*call), call) for call in calls]


def right(embed_dim, num_heads, bias):
    return sum((embed_dim + bias) * 2 * width for width in (embed_dim, embed_dim // num_heads))


TERMS = {
    "D^2": lambda d, h: d * d, "D W": lambda d, h: d * d // h, "W^2": lambda d, h: (d // h) ** 2,
    "D^2 H": lambda d, h: d * d * h, "D H": lambda d, h: d * h, "D": lambda d, h: d,
    "W": lambda d, h: d // h, "H": lambda d, h: h, "1": lambda d, h: 1,
}  # fmt: skip


def counted(asked: Asked) -> str:
    """As what the weights and the biases are counted: every size is asked with and without."""
    found = {x.case.args: float(x.seen) for x in asked.calls}
    sizes = list({size[:2]: 0 for size in found if (*size[:2], not size[2]) in found})
    all_of, weights = ([found[*size, bias] for size in sizes] for bias in (True, False))
    terms = {name: [of(*size) for size in sizes] for name, of in TERMS.items()}
    more = [x - y for x, y in zip(all_of, weights, strict=True)]
    without, biases = (
        formula(seen, terms) or f"{seen[0]:,.10g} (where D is 512 and H is 8)"
        for seen in (weights, more)
    )
    return (
        f"With D = embed_dim, H = num_heads and W = D / H, the answer is {without} without bias, "
        f"and with bias {biases} more. A projection has inputs x outputs weights and, with bias, "
        "one bias for each output; key and value have one head each."
    )


EXERCISE = Exercise(
    name="param_count", judge=Counts(definition, cases), right=right, explain=(counted,)
)
