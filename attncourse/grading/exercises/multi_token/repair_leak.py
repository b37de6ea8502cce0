"""Exercise repair_leak: multi-token attention that reads the future in three ways, repaired."""

import math

import torch.nn.functional as F

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.exercises.multi_token.convolve_scores import future, positive
from attncourse.grading.inputs import far_below_zero
from attncourse.spec import multi_token_attention as definition

CALLS = (  # special about the call; batch, heads, n, d, e, kernel, kernel_after, gradients
    ("7 tokens", (1, 2, 7, 4, 5), (3, 3), (4, 3), False),
    ("kernels with an even number of rows", (2, 3, 4, 3, 4), (2, 3), (2, 5), True),
    ("a kernel_after that changes nothing", (1, 3, 5, 2, 4), (3, 3), (2, 3), True),
    ("a kernel that changes nothing", (1, 2, 5, 4, 3), (2, 5), (3, 3), False),
    ("kernels larger than the table", (1, 2, 3, 4, 6), (5, 9), (4, 7), False),
    ("scores below -1e8", (1, 2, 4, 16, 3), (2, 3), (2, 3), None),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, d, e), first, second, gradients in CALLS:
        args = normal(g, (b, h, n, d), (b, h, n, d), (b, h, n, e), (h, *first), (h, *second))
        if "changes nothing" in what:
            same = args[4 if "after" in what else 3]
            same.zero_()[:, -1, same.size(2) // 2] = 1.0
        if "below" in what:
            far_below_zero(*args[:2])
            args[3] = positive(args[3])
        found.append(Case(what, tuple(args), gradients=gradients))
    return found


def slide(table, kernel):
    """A convolution that looks back in the queries, and to both sides in the keys."""
    around = F.pad(table, (kernel.size(2) // 2,) * 2 + (kernel.size(1) - 1, 0))
    return F.conv2d(around, kernel[:, None], groups=len(kernel))


@Dataflow
def right(query, key, value, kernel, kernel_after):
    later = future(*2 * [query.size(2)])
    scores = yield "the scores", query @ key.mT / math.sqrt(query.size(-1))
    past = yield "the scores with 0 in the future", scores.masked_fill(later, 0.0)
    slid = yield "the convolved scores", slide(past, kernel)
    weights = yield "the weights of the softmax", slid.masked_fill(later, -math.inf).softmax(-1)
    after = yield "the convolved weights", slide(weights, kernel_after)
    mixed = yield "the convolved weights with 0 in the future", after.masked_fill(later, 0.0)
    return mixed @ value, mixed


EXERCISE = Exercise(
    name="repair_leak",
    answer="without_leaks",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
)
