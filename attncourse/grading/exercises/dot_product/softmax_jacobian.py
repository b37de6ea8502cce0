"""Exercise softmax_jacobian: how far the weights move when a score moves."""

import torch

from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.families import exponentials, mistakes_of, softmaxes
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe


def definition(scores):
    """jacobian(b, i, j) = p_i (1 - p_i) if i == j else -p_i p_j, with p = softmax of row b."""
    batch, m = scores.shape
    jacobian = torch.zeros(batch, m, m, dtype=scores.dtype)
    for b in range(batch):
        exponentials = [torch.exp(s - scores[b].max()) for s in scores[b]]
        p = [x / sum(exponentials) for x in exponentials]
        for i in range(m):
            for j in range(m):
                jacobian[b, i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return jacobian


def cases(seed: int) -> list[Case]:
    g = torch.Generator().manual_seed(seed)
    large = 100 * torch.randn(3, 4, generator=g)
    large[1, 2] = 150.0  # its exponential is beyond float32
    around = torch.tensor([[1000.0], [0.0], [-1000.0]])
    return [
        Case("2 rows of 5 scores", (torch.randn(2, 5, generator=g),)),
        Case("as many rows as scores", (torch.randn(3, 3, generator=g),)),
        Case("large scores", (large,)),
        Case("scores around 1000, 0 and -1000", (around + torch.randn(3, 6, generator=g),)),
        Case("one row of equal scores", (torch.zeros(1, 7),)),
        Case("one score", (torch.randn(2, 1, generator=g),)),
    ]


def softmax(scores):
    return torch.softmax(scores, dim=-1)


def outer(p):
    return p[:, :, None] * p[:, None, :]


# Scores are given, weights are made, and "mixed" to the Jacobian.
RIGHT = Recipe(
    lambda scores: Given(scores, scores, scores),
    score=lambda x: x.query,
    scale=lambda x: 1.0,
    mix=lambda p, x: torch.diag_embed(p) - outer(p),
    answer=lambda jacobian, p, s, x: jacobian,
)
ACCEPTED = Accepted(diagonal_minus_outer=RIGHT)


@ACCEPTED.add
def einsum(scores):
    p = softmax(scores)
    identity = torch.eye(scores.size(1))
    return torch.einsum("bi,ij->bij", p, identity) - torch.einsum("bi,bj->bij", p, p)


@ACCEPTED.add
def autograd_row_by_row(scores):
    jacobian = torch.autograd.functional.jacobian
    return torch.stack([jacobian(lambda s: torch.softmax(s, 0), row) for row in scores])


@ACCEPTED.add
def vmap_of_jacrev(scores):
    return torch.func.vmap(torch.func.jacrev(softmax))(scores)


@ACCEPTED.add
def loops_in_double(scores):
    return definition(scores.double())


NOT_HERE = (  # their sentences speak of queries, keys and heads
    "softmax over queries", "softmax over heads", "softmax over samples", "softmax over both", "sigmoid",
    "negative scores", "one hot", "uniform",
)  # fmt: skip
MISTAKES = Mistakes(mistakes_of(RIGHT, softmaxes, without=NOT_HERE))
for step, says, wrong in (
    ("normalize", "The softmax runs over the rows of the batch instead of over the scores of a row.",
     lambda s: s.softmax(0)),
    ("normalize", "The softmax runs over all scores of the batch; each row has its own.",
     lambda s: s.flatten().softmax(0).view_as(s)),
    ("normalize", "The sign of the scores is turned.", lambda s: softmax(-s)),
    ("normalize", "The weights are sigmoids of the scores; they must sum to 1 in each row.", torch.sigmoid),
    ("normalize", "The exponential overflows on large scores, and nan_to_num hides that behind zeros; use "
     "torch.softmax.", lambda s: exponentials(s).nan_to_num()),
    ("normalize", "The scores are clamped, so large ones become equal; use torch.softmax.",
     lambda s: softmax(s.clamp(-50, 50))),
    ("normalize", "The largest of all scores is subtracted, and nan_to_num turns a row far below it into zeros; "
     "subtract that of the row.", lambda s: exponentials(s - s.max()).nan_to_num()),
    ("mix", "Only the diagonal p (1 - p) is there; raising one score also lowers the other weights.",
     lambda p, x: torch.diag_embed(p * (1 - p))),
    ("mix", "The diagonal is p, not p (1 - p); subtract the outer product there as well.",
     lambda p, x: torch.diag_embed(p + p * p) - outer(p)),
    ("mix", "The diagonal is 1 - p, not p (1 - p).", lambda p, x: torch.diag_embed(1 - p + p * p) - outer(p)),
    ("mix", "The outer product is added instead of subtracted.", lambda p, x: torch.diag_embed(p) + outer(p)),
    ("mix", "The sign is flipped: this is p p^T - diag(p).", lambda p, x: outer(p) - torch.diag_embed(p)),
    ("mix", "The diagonal is missing; only the outer product is there.", lambda p, x: -outer(p)),
    ("mix", "Outside the diagonal the minus is missing: raising one score lowers the other weights.",
     lambda p, x: outer(p) + torch.diag_embed(p - 2 * p * p)),
    ("mix", "The p on the diagonal is 1; this is the Jacobian of the log of the softmax, or nearly.",
     lambda p, x: torch.eye(p.size(1)) - p[:, None, :]),
    ("mix", "The diagonal is 1 where p belongs: this is 1 - p p^T.", lambda p, x: torch.eye(p.size(1)) - outer(p)),
    ("mix", "The outer product is summed over the batch; each row has its own Jacobian.",
     lambda p, x: torch.diag_embed(p) - p.T @ p),
    ("mix", "p is subtracted from every column instead of p p^T.", lambda p, x: torch.diag_embed(p) - p[:, :, None]),
    ("mix", "The diagonal is the sigmoid's derivative of the scores; a softmax couples all scores.",
     lambda p, x: torch.diag_embed(x.query.sigmoid() * (1 - x.query.sigmoid()))),
    ("mix", "The Jacobian of the whole batch is returned, (b, m, b, m); only scores of one row interact.",
     lambda p, x: torch.autograd.functional.jacobian(softmax, x.query)),
    ("answer", "The weights are returned; return how they move.", lambda o, p, s, x: p),
    ("answer", "An axis of size 1 is squeezed away; the result is always (batch, m, m).", lambda o, p, s, x: o.squeeze(-1)),
    ("answer", "The derivatives are summed over the weights, which always gives 0: the weights sum to 1.",
     lambda o, p, s, x: o.sum(1)),
    ("answer", "Only the diagonals are returned, (batch, m); return (batch, m, m).",
     lambda o, p, s, x: o.diagonal(dim1=1, dim2=2)),
    ("answer", "Only one Jacobian is returned; there is one per row of the batch.", lambda o, p, s, x: o[0]),
):  # fmt: skip
    MISTAKES.append(RIGHT.but(says, **{step: wrong}))
says = "The largest score is subtracted in place, which changes the caller's tensor."
MISTAKES.add(says)(lambda scores: RIGHT(scores.sub_(scores.amax(-1, keepdim=True))))

EXERCISE = Exercise(
    name="softmax_jacobian", title="The Jacobian of the softmax", kind="Implement",
    points=2, difficulty=3, minutes=15,
    needs="section 'Why divide by the square root?' of chapter 1",
    judge=Calls(definition, cases, gradients=False), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Write p = softmax(s). Differentiate p_i = exp(s_i) / sum_k exp(s_k) by s_j, once for i = j "
        "and once for i != j.",
        "The two cases are p_i (1 - p_i) and -p_i p_j. Both are diag(p) - p p^T.",
        "torch.diag_embed(p) builds the diagonals; p[:, :, None] * p[:, None, :] the outer products.",
    ),
)  # fmt: skip
