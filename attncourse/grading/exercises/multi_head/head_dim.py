"""Exercise head_dim: a layer that rounds head_dim down and runs on the wrong tokens, repaired."""

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise, Facts, Raised, seeded
from attncourse.grading.layers_judge import Layers
from attncourse.grading.observe import NotAttempted, run

REFUSED = ((10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5), (100, 64))
BUILT = ((6, 2), (6, 1), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8), (32, 16), (48, 4))
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
STARTS = "what it builds starts with numbers of float32 that can learn"
NAMES = (
    *(f"embed_dim={e}, num_heads={h} is refused with a ValueError" for e, h in REFUSED),
    "a pair drawn at random that does not divide is refused with a ValueError",
)


class AsFound(nn.Module):
    """The layer of the statement: nothing stops a head_dim that was rounded down."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    def forward(self, x):
        shape = x.size(0), -1, self.num_heads, self.head_dim
        q, k, v = (self.get_submodule(p)(x).view(shape).transpose(1, 2) for p in PROJECTIONS[:3])
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(out.transpose(1, 2).reshape(x.size(0), -1, x.size(2)))


class Repaired(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError("embed_dim must be a multiple of num_heads")
        super().__init__(embed_dim, num_heads)


class Definition(AsFound):
    """The loops of the course."""

    def forward(self, x):
        params = {name: p.double() for name, p in self.named_parameters()}
        return spec.multi_head_attention(*[x.double()] * 3, params, self.num_heads)[0]


def facts(answer, seed):
    """How a layer starts, and whether the pairs of the list and one that is drawn are refused."""
    a, b, c = torch.randint(10, (3,), generator=seeded(seed, "refused")).tolist()
    drawn = (3 + a) * (13 + b) + 1 + c % (2 + a), 3 + a
    yield STARTS, run(starts, answer)
    for name, pair in zip(NAMES, (*REFUSED, drawn), strict=True):
        yield name, refusal(answer, *pair)


def refusal(answer, embed_dim, num_heads):
    """True, or what happened instead of a ValueError in the constructor."""
    try:
        layer = run(answer, embed_dim, num_heads)
    except NotAttempted:  # other pairs were built, so this is no stub
        layer = Raised("NotImplementedError")
    if not isinstance(layer, Raised):
        return "it is built"
    return layer.kind == "ValueError" or f"{layer.kind} in the constructor"


def starts(answer):
    """True, or what is wrong with the parameters of layers that were just built."""
    named, others = (dict(answer(*BUILT[0]).named_parameters()) for _ in "ab")
    alike = [name for name in PROJECTIONS if named[f"{name}.weight"].unique().numel() == 1]
    if alike:
        return f"one number everywhere: {', '.join(alike)}"
    if all(named[f"{name}.weight"].equal(others[f"{name}.weight"]) for name in PROJECTIONS):
        return "two layers start with the same weights"
    return {p.dtype for p in named.values()} == {torch.float32} or "not of float32"


EXERCISE = Exercise(
    name="head_dim",
    answer="RepairedAttention",
    judge=Layers(
        Definition,
        "embed_dim num_heads",
        sizes=tuple(("", pair, (2, 3), 1 if pair[0] in (6, 15) else 0.5) for pair in BUILT),
        drawn=lambda a, b, c: ((5 * a + b + 6) * (3 + c), 5 * a + b + 6),
        calls=lambda n, seed: [Case("", ())],
        also=Facts(facts, (STARTS, *NAMES)),
    ),
    right=Repaired,
    axes=("b n d",),
    asks_for="layer",
)
