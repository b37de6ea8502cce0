"""Exercise off_by_one: a softmax with one more in its denominator, which bears every score."""

import math

import torch

from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, seeded


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
    """Along which other axis the softmax runs in the first wrong call."""
    call = asked.shaped[0]
    scores, dim = call.case.args
    for axis in range(scores.dim()):
        if same(right(scores, axis), call.seen):
            return f"In the call '{call.label}' the softmax runs along axis {axis}, not {dim}."
    return ""


def denominator(asked: Asked) -> str:
    """By what the exponentials of the first row are divided, in the first call that is wrong."""
    call = asked.shaped[0]
    scores, dim = call.case.args
    row, weights = (x.double().movedim(dim, -1).flatten(0, -2)[0] for x in (scores, call.seen))
    below, where = row.exp() / weights, f"In the first row of the call '{call.label}'"
    if not below.isfinite().all():
        return ""
    if not same(below, below[:1].expand_as(below)):
        return f"{where} the weights are not the exponentials over one number, 1 and their sum."
    added, top = float(below[0] - row.exp().sum()), float(row.max().exp())
    what = ", exp of the largest score," * (abs(added - top) < 1e-3)
    return f"{where} {added:.3f}{what} is added to the exponentials below the line; it should be 1."


EXERCISE = Exercise(
    name="off_by_one",
    judge=Calls(definition, cases),
    right=right,
    explain=(along, denominator),
)
