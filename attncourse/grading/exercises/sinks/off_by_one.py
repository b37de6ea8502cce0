"""Exercise off_by_one: a softmax with one more in its denominator, which bears every score."""

import math

import torch

from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, Mistake, seeded


def definition(scores, dim):
    """Row by row. Each exponential is divided by the largest before the sum, the 1 too."""
    rows, found = scores.movedim(dim, -1), []
    for row in rows.reshape(-1, rows.size(-1)):
        largest = max(0.0, row.max().item())
        total = math.exp(-largest) + sum(torch.exp(s - largest) for s in row)
        found.append(torch.stack([torch.exp(s - largest) / total for s in row]))
    return torch.stack(found).reshape(rows.shape).movedim(-1, dim)


CALLS = (  # special about the call, shape, dim, factor on the scores, added, share of hidden ones
    ("the last of 3 axes", (2, 3, 5), -1, 1, 0.0, 0),
    ("the middle of 3 axes", (4, 3, 2), 1, 1, 0.5, 0),
    ("one row, dim=0", (6,), 0, 1, -0.5, 0),
    ("scores from about -1000 to 1000", (2, 5, 6), -1, 400, 0.0, 0),
    ("all scores about -1000", (3, 2, 4), -1, 5, -1000.0, 0),
    ("all scores about 1000", (3, 2, 4), 1, 5, 1000.0, 0),
    ("rows of minus infinity, and others beside them", (2, 3, 4, 5), -1, 2, 0.0, 0.5),
    ("4 axes, dim=-3", (3, 4, 2, 5), -3, 1, 0.0, 0),
    ("a single score", (1, 1), -1, 1, 0.3, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, shape, dim, loud, added, hidden in CALLS:
        scores = loud * torch.randn(shape, generator=g) + added
        if hidden:
            scores = scores.masked_fill(torch.rand(shape, generator=g) < hidden, -math.inf)
            scores[0, 0, 0], scores[1, 1, 1] = -math.inf, 700.0
        found.append(Case(what, (scores, dim), gradients=loud == 1))
    return found


@Dataflow
def right(scores, dim):
    top = yield "the largest scores of the rows", scores.amax(dim, keepdim=True)
    shift = yield "the numbers that are subtracted, at least 0", top.clamp(min=0)
    weights = yield "the exponentials", torch.exp(scores - shift)
    one = yield "the exponentials of the 1, exp(-largest)", torch.exp(-shift)
    total = yield "the denominators", one + weights.sum(dim, keepdim=True)
    return weights / total


def along(asked: Asked) -> str:
    """Along which other axis, or all of them, the softmax runs in a wrong call."""
    for call in asked.shaped:
        scores, dim = call.case.args
        for axis in range(scores.dim()):
            if same(right(scores, axis), call.seen):
                return f"In the call '{call.label}' the softmax runs along axis {axis}, not {dim}."
        if same(right(scores.flatten(), 0).view_as(scores), call.seen):
            return f"In the call '{call.label}' the softmax runs over all axes; it runs along dim."
    return ""


def denominator(asked: Asked) -> str:
    """All weights of a row are wrong by one factor, in the first call that is wrong."""
    call = asked.shaped[0]
    factor, dim = call.seen.double() / call.expected, call.case.args[1]
    if not same(factor.narrow(dim, 0, 1).expand_as(factor), factor) or factor.size(dim) < 2:
        return ""
    says = f"are {float(factor.flatten()[0]):.4g} times what they should be in the first row"
    return f"In the call '{call.label}' the weights of a row {says}: look at the denominator."


EXERCISE = Exercise(
    name="off_by_one",
    judge=Calls(definition, cases),
    right=right,
    explain=(along, denominator),
    measures=("gradients",),
    ideas=[
        Mistake("The weights sum to 1, as those of the ordinary softmax do; the 1 is missing.",
                lambda s, dim: s.softmax(dim)),
        Mistake("The largest score is subtracted, but 1 is added as it is; it must shrink by the "
                "same factor, to exp(-largest).",
                lambda s, dim: (x := torch.exp(s - s.amax(dim, keepdim=True)),
                                x / (1 + x.sum(dim, keepdim=True)))[1]),
        right.but("A score of 1 is added, whose exponential is 2.718; that of the 1 in the "
                  "denominator is 0.", "the exponentials of the 1, exp(-largest)",
                  lambda x: math.e * x),
        Mistake("Every exponential is divided by 1 and itself, which is the sigmoid; divide by "
                "1 and all exponentials of the row.", lambda s, dim: s.sigmoid()),
    ],
)  # fmt: skip
