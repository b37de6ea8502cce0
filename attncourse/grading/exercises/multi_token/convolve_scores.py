"""Exercise convolve_scores: every score learns of its neighbours, and nothing of the future."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded


def future(n, m):
    """Which keys come later than the query: the n queries are the last of m tokens."""
    return torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)


def definition(scores, kernel):
    """The loops of the convolution, on a table whose future is 0; then no later key has weight."""
    later = future(*scores.shape[2:])
    found = spec.convolve(scores.masked_fill(later, 0.0), kernel)
    return found.masked_fill(later, -math.inf).softmax(-1)


CALLS = (  # special about the call, batch, heads, n, m, c_q, c_k
    ("2 samples, 3 heads, 5 tokens, a kernel of 2 by 3", (2, 3, 5, 5, 2, 3)),
    ("a single score of 1, a kernel of 3 by 5", (1, 1, 15, 15, 3, 5)),
    ("the last 4 of 7 tokens, a kernel of 3 by 5", (1, 2, 4, 7, 3, 5)),
    ("one new token after 5, a kernel of 2 by 3", (3, 2, 1, 6, 2, 3)),
    ("a kernel of 5 by 11, larger than the table", (1, 2, 3, 4, 5, 11)),
    ("scores below -1e8, a kernel of 2 by 3", (2, 2, 3, 4, 2, 3)),
)


def positive(kernel):
    """A kernel that leaves low scores low: 1 for the place itself, little for its neighbours."""
    kernel = 0.1 * kernel.abs()
    kernel[:, -1, kernel.size(2) // 2] = 1.0
    return kernel


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, c_q, c_k) in CALLS:
        scores, kernel = normal(g, (b, h, n, m), (h, c_q, c_k))
        scores, kernel = 2 * scores, kernel + 0.3 * kernel.sign()  # no weight is nearly 0
        if "single" in what:
            scores = torch.zeros(b, h, n, m)
            scores[:, :, 12, 8] = 1.0
        if "below" in what:
            scores, kernel = -1.5e8 - 1e7 * scores.abs(), positive(kernel)
        found.append(Case(what, (scores, kernel), gradients="last 4" in what or "larger" in what))
    return found


@Dataflow
def right(scores, kernel):
    (heads, c_q, c_k), later = kernel.shape, future(*scores.shape[2:])
    past = yield "the scores with 0 in the future", scores.masked_fill(later, 0.0)
    wide = F.pad(past, (c_k // 2, c_k // 2, c_q - 1, 0))
    wide = yield "the scores with zeros above and beside", wide
    slid = yield "the convolved scores", F.conv2d(wide, kernel[:, None], groups=heads)
    return slid.masked_fill(later, -math.inf).softmax(-1)


EXERCISE = Exercise(
    name="convolve_scores",
    answer="convolved_weights",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n m",),
)
