"""Exercise param_count: how many numbers does a multi-query layer learn?"""

from dataclasses import dataclass

import torch
from torch import nn

from attncourse.grading.compare import Close, difference
from attncourse.grading.exercise import Accepted, Case, Counts, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import seeded


def definition(embed_dim, num_heads, bias):
    """The four projections, built without memory and counted."""
    head_dim = embed_dim // num_heads
    widths = embed_dim, head_dim, head_dim, embed_dim  # of query, key, value, output
    layers = nn.ModuleList(nn.Linear(embed_dim, w, bias, device="meta") for w in widths)
    return sum(p.numel() for p in layers.parameters())


def cases(seed: int) -> list[Case]:
    """An ordinary layer, one beyond 2**31 numbers, a prime number of heads, one head, and sizes of the seed."""
    h, w = torch.randint(2, 30, (2,), generator=seeded(seed)).tolist()
    sizes = (512, 8), (49049, 49), (64, 2), (15, 5), (7, 1), (h * w, h)
    calls = [(*size, bias) for size in sizes for bias in (True, False)]
    return [Case("embed_dim {}, num_heads {}, bias {}".format(*call), call) for call in calls]


@dataclass(frozen=True)
class Learned(Counts):
    """Counts that tell weights from biases."""

    def notice(self, expected, seen, seed: int) -> str:
        counts = [k for k in expected if k.endswith(", output")]
        found = [seen.get(k) for k in counts]
        if not all(isinstance(x, Close) and not x.value.dim() for x in found):
            return ""
        wrong = [k for k in counts if difference(expected[k], seen[k])]
        for kind, says in ONLY:
            if all(kind in k for k in wrong):
                return says
        more = [
            x.value.item() - expected[k].value.item() for k, x in zip(counts, found, strict=True)
        ]
        if more[::2] == more[1::2]:  # with biases as much as without
            return "The biases are counted as they should be; the weights are not." + counted(
                found[1]
            )
        return "The weights are not counted as they should be." + counted(found[1])


ONLY = (
    ("bias True", "The weights are counted as they should be; the biases are not: each projection has one for each of its outputs."),
    ("bias False", "With biases the count is right; without them it is not."),
    ("49049", "Only the widest layer is wrong: 32 bits are too few for its numbers. Python's whole numbers have no end."),
    ("num_heads 1,", "Only the layer with 1 head is wrong; its key and value are as wide as its query."),
)  # fmt: skip


def counted(found: Close) -> str:
    """The count for 512 and 8 heads, without biases, beside that of the statement."""
    return f" For D = 512, 8 heads and no bias they are {found.value.item():,.10g}; the layer that was built has 589,824."


ACCEPTED = Accepted(
    projection_by_projection=lambda d, h, bias: sum((d + bias) * width for width in (d, d // h, d // h, d)),
    the_formula=lambda d, h, bias: 2 * d**2 * (1 + 1 / h) + (2 * d * (1 + 1 / h) if bias else 0),
    grouped_formula_with_one_group=lambda d, h, bias: (2 * d + 2 * d // h) * (d + 1 if bias else d),
    multi_head_minus_what_is_shared=lambda d, h, bias: (4 * d - 2 * (d - d // h)) * (d + int(bias)),
)  # fmt: skip


@ACCEPTED.add
def one_packed_matrix(embed_dim, num_heads, bias):
    packed = nn.Linear(embed_dim, embed_dim + 2 * (embed_dim // num_heads), bias, device="meta")
    out = nn.Linear(embed_dim, embed_dim, bias, device="meta")
    return sum(p.numel() for layer in (packed, out) for p in layer.parameters())


COUNTS = (  # what is counted wrongly; of embed_dim, head_dim and bias
    ("3 D^2 is right for 2 heads only: two layers are D / H wide.", lambda d, w, b: 3 * d * d + b * 2 * (d + w)),
    ("3 D^2 is right for 2 heads only, and the biases are missing.", lambda d, w, b: 3 * d * d),
    ("3 D^2 is right for 2 heads only; with three full biases.", lambda d, w, b: 3 * (d + b) * d),
    ("3 D^2 is right for 2 heads only; with four full biases.", lambda d, w, b: (3 * d + 4 * b) * d),
    ("This is multi-head attention; here key and value have one head.", lambda d, w, b: 4 * (d + b) * d),
    ("Only one of key and value is shared; both have one head.", lambda d, w, b: (d + b) * (3 * d + w)),
    ("The biases are forgotten; each projection has one where bias is True.", lambda d, w, b: 2 * d * (d + w)),
    ("The biases are always counted; with bias=False there are none.", lambda d, w, b: 2 * (d + 1) * (d + w)),
    ("One bias is counted for the whole layer; each projection has one for each of its outputs.", lambda d, w, b: 2 * d * (d + w) + b),
    ("The biases of query and output projection are missing.", lambda d, w, b: 2 * d * (d + w) + b * 2 * w),
    ("The biases are turned around: they are counted where bias is False.", lambda d, w, b: 2 * (d + (not b)) * (d + w)),
    ("These are bytes; count the numbers.", lambda d, w, b: 8 * (d + b) * (d + w)),
    ("These are bytes; count the numbers. Or all is counted twice.", lambda d, w, b: 4 * (d + b) * (d + w)),
    ("Half of it is missing: query and output projection, key and value, each of them counts.", lambda d, w, b: (d + b) * (d + w)),
    ("These are two KV heads; there is one.", lambda d, w, b: (d + b) * (2 * d + 4 * w)),
    ("Key and value projections are subtracted; add them.", lambda d, w, b: (d + b) * (2 * d - 2 * w)),
    ("Only key and value projections are counted; there are four.", lambda d, w, b: (d + b) * 2 * w),
    ("Only the query projection is counted; there are four.", lambda d, w, b: (d + b) * d),
    ("Query and output projection alone are counted, or 1 // H is 0; key and value learn, too.", lambda d, w, b: 2 * d * d + b * 2 * d),
    ("Query and output projection alone are counted, without biases; key and value learn, too.", lambda d, w, b: 2 * d * d),
    ("The outputs are counted; each has embed_dim weights.", lambda d, w, b: 2 * (d + w)),
    ("All of it is multiplied by the heads; a projection holds all of its heads already.", lambda d, w, b: 2 * (d + b) * (d + w) * (d // w)),
    ("The biases of key and value are one head wide, not embed_dim.", lambda d, w, b: 2 * d * (d + w) + b * 4 * d),
    ("Key and value have no biases here; they have one each.", lambda d, w, b: 2 * d * (d + w) + b * 2 * d),
    ("A bias is counted as one number; it has one for each output.", lambda d, w, b: 2 * d * (d + w) + b * 4),
    ("Of key and value one matrix is counted; each has its own.", lambda d, w, b: (d + b) * (2 * d + w)),
    ("Of query and output projection one is counted; there are both.", lambda d, w, b: (d + b) * (d + 2 * w)),
    ("Key and value read head_dim numbers, not embed_dim.", lambda d, w, b: 2 * (d * d + w * w + b * (d + w))),
    ("The queries are shared as well; they keep all their heads.", lambda d, w, b: (d + b) * (d + 3 * w)),
    ("Every projection is divided by the heads; only key and value are.", lambda d, w, b: 4 * (d + b) * w),
    ("1 // H is 0 for every H above 1; divide at the end.", lambda d, w, b: 2 * (d + b) * d * (1 + w // d)),
    ("These are the numbers cached for a token; the question is what the layer learns.", lambda d, w, b: 2 * w),
    ("The number of heads is taken for head_dim.", lambda d, w, b: 2 * (d + b) * (d + d // w)),
)  # fmt: skip
MISTAKES = Mistakes(Mistake(says, lambda d, h, bias, f=f: f(d, d // h, bias)) for says, f in COUNTS)

EXERCISE = Exercise(
    name="param_count",
    judge=Learned(definition, cases, floats=True),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
