"""Exercise softmax_jacobian: how far the weights move when a score moves."""

import torch
from torch import diag_embed

from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.mistakes import exponentials, mistakes_of, softmaxes
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone, clamped


def definition(scores):
    """jacobian(b, i, j) = p_i (1 - p_i) if i == j else -p_i p_j, with p = softmax of row b."""
    batch, m = scores.shape
    jacobian = torch.zeros(batch, m, m, dtype=scores.dtype)
    for b in range(batch):
        exponentials = [torch.exp(s - scores[b].max()) for s in scores[b]]
        p = [x / sum(exponentials) for x in exponentials]
        for i, j in torch.cartesian_prod(torch.arange(m), torch.arange(m)):
            jacobian[b, i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return jacobian


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    large = 100 * torch.randn(5, 4, generator=g)
    large[0, :2] = torch.tensor([400.5, 400.0])  # two share the weight
    large[1, 2] = 150.0  # its exponential is beyond float32
    large[3:] = torch.tensor([[1.0], [-1.0]]) * 2**22 + 64 * torch.randperm(4, generator=g)
    around = torch.tensor([[1000.0], [0.0], [-1000.0]]) + torch.randn(3, 6, generator=g)
    return [
        Case("2 rows of 5 scores", (torch.randn(2, 5, generator=g),)),
        Case("large scores", (large,)),
        Case("scores around 1000, 0 and -1000", (around,)),
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
    mix=lambda p, x: diag_embed(p) - outer(p),
    answer=lambda jacobian, p, s, x: jacobian,
)
ACCEPTED = Accepted(
    diagonal_minus_outer=RIGHT,
    autograd_row_by_row=lambda scores: torch.stack(
        [torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), row) for row in scores]),
    vmap_of_jacrev=lambda scores: torch.func.vmap(torch.func.jacrev(softmax))(scores),
    loops_in_double=lambda scores: definition(scores.double()),
)  # fmt: skip


@ACCEPTED.add
def einsum(scores):
    p, identity = softmax(scores), torch.eye(scores.size(1))
    return torch.einsum("bi,ij->bij", p, identity) - torch.einsum("bi,bj->bij", p, p)


MISTAKES = Mistakes(mistakes_of(RIGHT, softmaxes, without=(  # their sentences speak of queries, keys and heads
    "softmax over queries", "softmax over heads", "softmax over samples", "softmax over both", "sigmoid",
    "negative scores", "one hot", "uniform")))  # fmt: skip
MISTAKES += [RIGHT.but(says, normalize=wrong) for says, wrong in (
    ("The softmax runs over the rows of the batch instead of over the scores of a row.", lambda s: s.softmax(0)),
    ("The softmax runs over all scores of the batch; each row has its own.",
     lambda s: s.flatten().softmax(0).view_as(s)),
    ("The weights are sigmoids of the scores; they must sum to 1 in each row.", torch.sigmoid),
    ("The exponential overflows on large scores, and nan_to_num hides that behind zeros; use torch.softmax.",
     lambda s: exponentials(s).nan_to_num()),
    ("The largest of all scores is subtracted, and nan_to_num turns a row far below it into zeros.",
     lambda s: exponentials(s - s.max()).nan_to_num()),
)] + [RIGHT.but(says, mix=wrong) for says, wrong in (
    ("Only the diagonal p (1 - p) is there; raising one score also lowers the other weights.",
     lambda p, x: diag_embed(p * (1 - p))),
    ("The diagonal is p, not p (1 - p); subtract the outer product there as well.",
     lambda p, x: diag_embed(p + p * p) - outer(p)),
    ("The outer product is added instead of subtracted.", lambda p, x: diag_embed(p) + outer(p)),
    ("The sign is flipped: this is p p^T - diag(p).", lambda p, x: outer(p) - diag_embed(p)),
    ("The diagonal is missing; only the outer product is there.", lambda p, x: -outer(p)),
    ("The p on the diagonal is 1; this is the Jacobian of the log of the softmax, or nearly.",
     lambda p, x: torch.eye(p.size(1)) - p[:, None, :]),
    ("The outer product is summed over the batch; each row has its own.", lambda p, x: diag_embed(p) - p.T @ p),
    ("p is subtracted from every column instead of p p^T.", lambda p, x: diag_embed(p) - p[:, :, None]),
    ("The diagonal is the sigmoid's derivative of the scores; a softmax couples all scores.",
     lambda p, x: diag_embed(x.query.sigmoid() * (1 - x.query.sigmoid()))),
    ("The Jacobian of the whole batch is returned, (b, m, b, m); only scores of one row interact.",
     lambda p, x: torch.autograd.functional.jacobian(softmax, x.query)),
)] + [RIGHT.but(says, answer=wrong) for says, wrong in (
    ("The weights are returned; return how they move.", lambda o, p, s, x: p),
    ("An axis of size 1 is squeezed away; it is always (batch, m, m).", lambda o, p, s, x: o.squeeze(-1)),
    ("The derivatives are summed over the weights, which always gives 0: the weights sum to 1.",
     lambda o, p, s, x: o.sum(1)),
    ("Only the diagonals are returned, (batch, m).", lambda o, p, s, x: o.diagonal(dim1=1, dim2=2)),
    ("Only one Jacobian is returned; there is one per row of the batch.", lambda o, p, s, x: o[0]),
)]  # fmt: skip
says = "The largest score is subtracted in place, which changes the caller's tensor."
MISTAKES.add(says)(lambda scores: RIGHT(scores.sub_(scores.amax(-1, keepdim=True))))

DIAGONAL = "The diagonal is {}; there it is p_i (1 - p_i)."
MISTAKES += alone([RIGHT.but(says, mix=wrong) for says, wrong in (
    ("Beside the diagonal this is p_i (1 - p_j); there it is -p_i p_j.", lambda p, x: p[:, :, None] - outer(p)),
    ("Beside the diagonal this is p_j (1 - p_i); there it is -p_i p_j.", lambda p, x: p[:, None, :] - outer(p)),
    ("Beside the diagonal this is p_i (1 - p_i); there it is -p_i p_j.",
     lambda p, x: (p * (1 - p))[:, :, None].expand(outer(p).shape)),
    ("Beside the diagonal this is -p_i^2; there it is -p_i p_j.", lambda p, x: diag_embed(p) - (p * p)[:, :, None]),
    ("Beside the diagonal this is -p_j^2; there it is -p_i p_j.", lambda p, x: diag_embed(p) - (p * p)[:, None, :]),
    ("Beside the diagonal the sign is wrong: raising one score lowers the other weights.",
     lambda p, x: (diag_embed(p) - outer(p)).abs()),
    ("Only diag(p) is there; subtract the outer product p p^T.", lambda p, x: diag_embed(p)),
    ("Only the outer product is there; subtract it from diag(p).", lambda p, x: outer(p)),
    (DIAGONAL.format("1 - p^2"), lambda p, x: torch.eye(p.size(1)) - outer(p)),
    (DIAGONAL.format("0"), lambda p, x: diag_embed(p * p) - outer(p)),
    (DIAGONAL.format("1 - p - p^2"), lambda p, x: diag_embed(1 - p) - outer(p)),
    (DIAGONAL.format("p - 2 p^2: the outer product is subtracted twice there"),
     lambda p, x: diag_embed(p * (1 - p)) - outer(p)),
    (DIAGONAL.format("the same sum everywhere"),
     lambda p, x: diag_embed((p * (1 - p)).sum(1, keepdim=True).expand_as(p)) - outer(p)),
    (DIAGONAL.format("that of row 0 in every row"), lambda p, x: diag_embed(p[0]) - outer(p)),
    ("p stands where p p^T belongs; this is nearly the Jacobian of the log of the softmax.",
     lambda p, x: torch.eye(p.size(1)) - p[:, :, None]),
    ("Only one half is filled; the Jacobian is symmetric.", lambda p, x: (diag_embed(p) - outer(p)).triu()),
    ("Only one half is filled; the Jacobian is symmetric.", lambda p, x: (diag_embed(p) - outer(p)).tril()),
    ("The samples are mixed: each row of scores has its own Jacobian.",
     lambda p, x: (diag_embed(p) - outer(p)).mean(0)),
    ("Only one Jacobian is returned; there is one per row of the batch.", lambda p, x: (diag_embed(p) - outer(p))[-1:]),
    ("The Jacobians stand in one large matrix; return them as (batch, m, m).",
     lambda p, x: torch.block_diag(*(diag_embed(p) - outer(p)))),
    ("It is divided by the number of scores or its root; a derivative has no such factor.",
     lambda p, x: (diag_embed(p) - outer(p)) / p.size(1)),
    ("It is divided by the number of scores or its root; a derivative has no such factor.",
     lambda p, x: (diag_embed(p) - outer(p)) / p.size(1) ** 0.5),
)] + [RIGHT.but(says, normalize=wrong) for says, wrong in (
    ("The sign of the scores is turned; the largest score has the largest weight.", lambda s: softmax(-s)),
    ("The weights do not depend on the scores: all are 1 / m.", lambda s: torch.ones_like(s) / s.size(1)),
    ("All weight goes to the largest score; that is argmax, not softmax.",
     lambda s: torch.nn.functional.one_hot(s.argmax(-1), s.size(1)).float()),
    ("The smallest score of the row is subtracted, so the exponential still overflows; subtract the largest.",
     lambda s: exponentials(s - s.amin(-1, keepdim=True))),
    ("The largest score of a row is clamped at 0 before it is subtracted, and rows far below 0 vanish.",
     lambda s: exponentials(s - s.amax(-1, keepdim=True).clamp(min=0))),
)] + [RIGHT.but("The answer is right only to the precision of float16, which keeps 3 digits; stay in float32.",
                normalize=lambda s: softmax(s.half()).float())])  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, clamped))

EXERCISE = Exercise(
    name="softmax_jacobian",
    judge=Calls(definition, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
