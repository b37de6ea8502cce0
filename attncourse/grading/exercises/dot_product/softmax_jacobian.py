"""Exercise softmax_jacobian: how far the weights move when a score moves."""

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def spec(scores):
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
    small, large = torch.randn(2, 5, generator=g), 100 * torch.randn(3, 4, generator=g)
    large[1, 2] = 150.0  # its exponential is beyond float32
    around = torch.tensor([[1000.0], [0.0], [-1000.0]])
    return [
        Case("2 rows of 5 scores", (small,)),
        Case("large scores", (large,)),
        Case("one row of equal scores", (torch.zeros(1, 7),)),
        Case("scores around 1000, 0 and -1000", (around + torch.randn(3, 4, generator=g),)),
        Case("one score", (torch.randn(2, 1, generator=g),)),
    ]


ACCEPTED = Accepted()


def softmax(scores):
    return torch.softmax(scores, dim=-1)


@ACCEPTED.add
def diagonal_minus_outer(scores):
    p = softmax(scores)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


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
    return spec(scores.double())


MISTAKES = Mistakes()


@MISTAKES.add(
    "Only the diagonal p (1 - p) is there; raising one score also lowers the other weights."
)
def diagonal_only(scores):
    p = softmax(scores)
    return torch.diag_embed(p * (1 - p))


@MISTAKES.add("The diagonal is p, not p (1 - p); subtract the outer product there as well.")
def diagonal_not_reduced(scores):
    p = softmax(scores)
    outer = p[:, :, None] * p[:, None, :]
    return torch.diag_embed(p) - outer + torch.diag_embed(outer.diagonal(dim1=1, dim2=2))


@MISTAKES.add("The outer product is added instead of subtracted.")
def added(scores):
    p = softmax(scores)
    return torch.diag_embed(p) + p[:, :, None] * p[:, None, :]


@MISTAKES.add("The sign is flipped: this is p p^T - diag(p).")
def flipped(scores):
    return -diagonal_minus_outer(scores)


@MISTAKES.add("The diagonal is missing; only the outer product is there.")
def outer_only(scores):
    p = softmax(scores)
    return -p[:, :, None] * p[:, None, :]


@MISTAKES.add(
    "The p on the diagonal is 1; this is the Jacobian of the log of the softmax, or nearly."
)
def log_softmax(scores):
    return torch.eye(scores.size(1)) - softmax(scores)[:, None, :]


@MISTAKES.add("The scores themselves are used where the weights belong; apply the softmax first.")
def no_softmax(scores):
    return torch.diag_embed(scores) - scores[:, :, None] * scores[:, None, :]


@MISTAKES.add("The softmax runs over the rows of the batch instead of over the scores of a row.")
def softmax_over_batch(scores):
    p = torch.softmax(scores, dim=0)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@MISTAKES.add("The exponential overflows on large scores; use torch.softmax.")
def overflow(scores):
    p = scores.exp() / scores.exp().sum(-1, keepdim=True)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@MISTAKES.add(
    "The exponential overflows on large scores, and nan_to_num hides that behind zeros; use "
    "torch.softmax."
)
def overflow_hidden(scores):
    p = torch.nan_to_num(scores.exp() / scores.exp().sum(-1, keepdim=True))
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@MISTAKES.add("The scores are clamped, so large ones become equal; use torch.softmax.")
def clamped(scores):
    return diagonal_minus_outer(scores.clamp(-50, 50))


@MISTAKES.add(
    "The maximum of the whole batch is subtracted: a row far below it becomes 0 / 0. Each row needs "
    "its own maximum, as torch.softmax takes it."
)
def maximum_of_the_batch(scores):
    exponentials = (scores - scores.max()).exp()
    p = exponentials / exponentials.sum(-1, keepdim=True)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@MISTAKES.add(
    "The maximum of the whole batch is subtracted, and nan_to_num turns a row far below it into "
    "zeros. Each row needs its own maximum, as torch.softmax takes it."
)
def maximum_of_the_batch_hidden(scores):
    exponentials = (scores - scores.max()).exp()
    p = torch.nan_to_num(exponentials / exponentials.sum(-1, keepdim=True))
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@MISTAKES.add("An axis of size 1 is squeezed away; the result is always (batch, m, m).")
def squeezed(scores):
    return diagonal_minus_outer(scores).squeeze(-1)


@MISTAKES.add("The outer product is summed over the batch; each row has its own Jacobian.")
def shared_outer(scores):
    p = softmax(scores)
    return torch.diag_embed(p) - p.T @ p


@MISTAKES.add("p is subtracted from every column instead of p p^T.")
def weights_subtracted(scores):
    p = softmax(scores)
    return torch.diag_embed(p) - p[:, :, None]


@MISTAKES.add(
    "The diagonal is the sigmoid's derivative of the scores; a softmax couples all scores."
)
def sigmoid(scores):
    s = torch.sigmoid(scores)
    return torch.diag_embed(s * (1 - s))


@MISTAKES.add(
    "The Jacobian of the whole batch is returned, (b, m, b, m); only rows of one sample interact."
)
def whole_batch(scores):
    return torch.autograd.functional.jacobian(softmax, scores)


@MISTAKES.add(
    "The derivatives are summed over the weights, which always gives 0: the weights sum to 1."
)
def summed(scores):
    return diagonal_minus_outer(scores).sum(1)


@MISTAKES.add("Only one Jacobian is returned; there is one per row of the batch.")
def first_row_only(scores):
    return diagonal_minus_outer(scores)[0]


EXERCISE = Exercise(
    name="softmax_jacobian",
    answer="softmax_jacobian",
    title="The Jacobian of the softmax",
    kind="Implement",
    points=2,
    difficulty=3,
    minutes=15,
    needs="section 'Why divide by the square root?' of chapter 1",
    judge=Calls(spec, cases, gradients=False),
    hints=(
        "Write p = softmax(s). Differentiate p_i = exp(s_i) / sum_k exp(s_k) by s_j, once for i = j "
        "and once for i != j.",
        "The two cases are p_i (1 - p_i) and -p_i p_j. Both are diag(p) - p p^T.",
        "torch.diag_embed(p) builds the diagonals; p[:, :, None] * p[:, None, :] the outer products.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
