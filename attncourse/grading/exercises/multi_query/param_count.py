"""Exercise param_count: how many numbers does a multi-query layer learn?"""

import torch
from torch import nn

from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistakes
from attncourse.grading.observe import Case


def definition(embed_dim, num_heads, bias):
    """The four projections, built without memory and counted."""
    head_dim = embed_dim // num_heads
    widths = embed_dim, head_dim, head_dim, embed_dim  # of query, key, value, output
    layers = nn.ModuleList(nn.Linear(embed_dim, w, bias, device="meta") for w in widths)
    return sum(p.numel() for p in layers.parameters())


def cases(seed: int) -> list[Case]:
    """Ordinary layers and a very wide one, a prime number of heads, one head, and sizes of the seed."""
    h, w = torch.randint(2, 30, (2,), generator=torch.Generator().manual_seed(seed)).tolist()
    sizes = (512, 8), (8192, 64), (64, 2), (15, 5), (7, 1), (6, 6), (48, 16), (h * w, h)
    calls = [(d, h, bias) for d, h in sizes for bias in (True, False)]
    return [
        Case(f"embed_dim {d}, num_heads {h}, bias {bias}", (d, h, bias)) for d, h, bias in calls
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def projection_by_projection(embed_dim, num_heads, bias):
    head_dim = embed_dim // num_heads
    return sum(embed_dim * w + bias * w for w in (embed_dim, head_dim, head_dim, embed_dim))


@ACCEPTED.add
def the_formula(embed_dim, num_heads, bias):
    weights = 2 * embed_dim**2 * (1 + 1 / num_heads)
    return weights + (2 * embed_dim * (1 + 1 / num_heads) if bias else 0)


@ACCEPTED.add
def one_packed_matrix(embed_dim, num_heads, bias):
    packed = nn.Linear(embed_dim, embed_dim + 2 * (embed_dim // num_heads), bias, device="meta")
    out = nn.Linear(embed_dim, embed_dim, bias, device="meta")
    return sum(p.numel() for layer in (packed, out) for p in layer.parameters())


@ACCEPTED.add
def grouped_formula_with_one_group(embed_dim, num_heads, bias):
    rows = 2 * embed_dim + 2 * embed_dim // num_heads
    return rows * (embed_dim + 1) if bias else rows * embed_dim


@ACCEPTED.add
def multi_head_minus_what_is_shared(embed_dim, num_heads, bias):
    return (4 * embed_dim - 2 * (embed_dim - embed_dim // num_heads)) * (embed_dim + int(bias))


MISTAKES = Mistakes(
    Mistake(says, lambda d, h, bias, count=count: count(d, h, d // h, bias)) for says, count in (
        ("3 D^2 is right for 2 heads only: key and value are D / H wide each.", lambda d, h, w, b: 3 * d * d + b * 2 * (d + w)),
        ("3 D^2 is right for 2 heads only, and the biases are missing.", lambda d, h, w, b: 3 * d * d),
        ("3 D^2 is right for 2 heads only; here it stands with three full biases.", lambda d, h, w, b: 3 * (d + b) * d),
        ("3 D^2 is right for 2 heads only; here it stands with four full biases.", lambda d, h, w, b: 3 * d * d + b * 4 * d),
        ("This is multi-head attention; here key and value have one head.", lambda d, h, w, b: 4 * (d + b) * d),
        ("Only one of key and value is shared; both have one head.", lambda d, h, w, b: (d + b) * (3 * d + w)),
        ("The biases are forgotten; each projection has one where bias is True.", lambda d, h, w, b: 2 * d * (d + w)),
        ("The biases are always counted; with bias=False there are none.", lambda d, h, w, b: 2 * (d + 1) * (d + w)),
        ("The biases are counted where bias is False.", lambda d, h, w, b: 2 * (d + (not b)) * (d + w)),
        ("The biases of key and value are one head wide, not embed_dim.", lambda d, h, w, b: 2 * d * (d + w) + b * 4 * d),
        ("Key and value have no biases here; they have one each.", lambda d, h, w, b: 2 * d * (d + w) + b * 2 * d),
        ("One of the two wide biases is missing; query and output have one each.",
         lambda d, h, w, b: 2 * d * (d + w) + b * (d + 2 * w)),
        ("A bias is counted as one number; it has one for each feature that comes out.",
         lambda d, h, w, b: 2 * d * (d + w) + b * 4),
        ("Of key and value one matrix is counted; each has its own.", lambda d, h, w, b: (d + b) * (2 * d + w)),
        ("Of the query and the output projection one is counted; there are both.", lambda d, h, w, b: (d + b) * (d + 2 * w)),
        ("Key and value matrices are head_dim by head_dim here; they read all embed_dim numbers.",
         lambda d, h, w, b: 2 * (d * d + w * w) + b * 2 * (d + w)),
        ("The queries are shared as well; they keep all their heads.", lambda d, h, w, b: (d + b) * (d + 3 * w)),
        ("Every projection is divided by the number of heads; only key and value are.", lambda d, h, w, b: 4 * (d + b) * w),
        ("1 // H is 0 for every H above 1; use a float, or divide at the end.", lambda d, h, w, b: 2 * (d + b) * d * (1 + 1 // h)),
        ("These are the numbers cached for a token; the question is what the layer learns.", lambda d, h, w, b: 2 * w),
        ("head_dim is taken to be the number of heads; it is embed_dim // num_heads.", lambda d, h, w, b: 2 * (d + b) * (d + h)),
    )
)  # fmt: skip

EXERCISE = Exercise(
    name="param_count", title="Count what is learned", kind="Implement",
    points=1, difficulty=1, minutes=10, needs="section 'What it costs' of chapter 5",
    judge=Counts(definition, cases, floats=True), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Four linear layers. A layer from a numbers to b numbers has a * b weights, and b biases if "
        "it has any.",
        "All four read embed_dim numbers. The query and the output projection are embed_dim wide, "
        "the key and the value projection as wide as one head.",
        "rows = 2 * embed_dim + 2 * (embed_dim // num_heads); return rows * (embed_dim + bias).",
    ),
)  # fmt: skip
