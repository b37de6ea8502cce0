"""Exercise param_count: how many numbers does a multi-query layer learn?"""

from torch import nn

from attncourse.grading.compare import Case, observe_number
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(embed_dim, num_heads, bias):
    """The four projections, built without memory and counted."""
    head_dim = embed_dim // num_heads
    widths = embed_dim, head_dim, head_dim, embed_dim  # of query, key, value, output
    layers = nn.ModuleList(nn.Linear(embed_dim, w, bias, device="meta") for w in widths)
    return sum(p.numel() for p in layers.parameters())


def cases(seed: int) -> list[Case]:
    """The numbers of document 004; a very wide layer; a prime number of heads; one head."""
    sizes = (512, 8), (8192, 64), (64, 2), (15, 5), (7, 1), (6, 6), (48, 16)
    return [
        Case(f"embed_dim {d}, {h} head{'s' * (h > 1)}, bias {bias}", (d, h, bias))
        for d, h in sizes
        for bias in (False, True)
    ]


class Counts(Calls):
    """`Calls` for functions that return a number: an int, a float or a tensor."""

    def observe(self, answer, seed: int):
        def number(*args):
            return observe_number(answer(*args), rtol=1e-9)

        return super().observe(number if callable(answer) else answer, seed)


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
    head_dim = embed_dim // num_heads
    packed = nn.Linear(embed_dim, embed_dim + 2 * head_dim, bias=bias, device="meta")
    out = nn.Linear(embed_dim, embed_dim, bias=bias, device="meta")
    return sum(p.numel() for layer in (packed, out) for p in layer.parameters())


@ACCEPTED.add
def grouped_formula_with_one_group(embed_dim, num_heads, bias):
    rows = 2 * embed_dim + 2 * embed_dim // num_heads
    return rows * (embed_dim + 1) if bias else rows * embed_dim


@ACCEPTED.add
def multi_head_minus_what_is_shared(embed_dim, num_heads, bias):
    dropped = 2 * (embed_dim - embed_dim // num_heads)
    return (4 * embed_dim - dropped) * (embed_dim + int(bias))


MISTAKES = Mistakes()
for says, count in (
    ("3 D^2 is the table of document 004. It is right for 2 heads only: the key and the value "
     "projection are D / H wide each.",
     lambda d, h, w, bias: 3 * d * d + bias * 2 * (d + w)),
    ("3 D^2 is the table of document 004, which leaves out the biases as well.",
     lambda d, h, w, bias: 3 * d * d),
    ("3 D^2 is the table of document 004; here it stands with three full biases.",
     lambda d, h, w, bias: 3 * (d * d + bias * d)),
    ("3 D^2 is the table of document 004; here it stands with four full biases.",
     lambda d, h, w, bias: 3 * d * d + bias * 4 * d),
    ("This is multi-head attention: the keys and values still have all heads.",
     lambda d, h, w, bias: 4 * (d * d + bias * d)),
    ("The biases are forgotten; each projection has one where bias is True.",
     lambda d, h, w, bias: 2 * d * (d + w)),
    ("The biases are always counted; with bias=False there are none.",
     lambda d, h, w, bias: 2 * (d + 1) * (d + w)),
    ("The biases of key and value are as wide as their projections: one head, not embed_dim.",
     lambda d, h, w, bias: 2 * d * (d + w) + bias * 4 * d),
    ("Key and value have no biases here; they have one each.",
     lambda d, h, w, bias: 2 * d * (d + w) + bias * 2 * d),
    ("Key and value are counted as one matrix; each has its own.",
     lambda d, h, w, bias: (d + bias) * (2 * d + w)),
    ("The output projection is forgotten.",
     lambda d, h, w, bias: (d + bias) * (d + 2 * w)),
    ("Key and value matrices are head_dim by head_dim here; they read all embed_dim numbers.",
     lambda d, h, w, bias: 2 * (d * d + w * w) + bias * 2 * (d + w)),
    ("The queries are shared as well; they keep all their heads.",
     lambda d, h, w, bias: (d + bias) * (d + 3 * w)),
    ("Every projection is divided by the number of heads; only key and value are.",
     lambda d, h, w, bias: 4 * (d + bias) * w),
    ("1 // H is 0 in Python for every H above 1; use a float, or divide at the end.",
     lambda d, h, w, bias: 2 * (d + bias) * d * (1 + 1 // h)),
    ("These are the numbers cached for a token; the question is what the layer learns.",
     lambda d, h, w, bias: 2 * w),
    ("head_dim is taken to be the number of heads; it is embed_dim // num_heads.",
     lambda d, h, w, bias: 2 * (d + bias) * (d + h)),
):  # fmt: skip
    MISTAKES.add(says)(lambda d, h, bias, count=count: count(d, h, d // h, bias))


EXERCISE = Exercise(
    name="param_count",
    answer="param_count",
    title="Count what is learned",
    kind="Implement",
    points=1,
    difficulty=1,
    minutes=10,
    needs="section 'What it costs' of chapter 5",
    judge=Counts(definition, cases, gradients=False),
    hints=(
        "Four linear layers. A layer from a numbers to b numbers has a * b weights, and b biases if "
        "it has any.",
        "All four read embed_dim numbers. The query and the output projection are embed_dim wide, "
        "the key and the value projection as wide as one head.",
        "rows = 2 * embed_dim + 2 * (embed_dim // num_heads); return rows * (embed_dim + bias).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
