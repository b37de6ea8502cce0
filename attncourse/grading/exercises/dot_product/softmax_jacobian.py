"""Exercise softmax_jacobian: how far the weights move when a score moves."""

from functools import partial

import torch

from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, Mistake, seeded
from attncourse.grading.explain.loud import only_loud


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


FIRST = "2 rows of 5"


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    large = 100 * torch.randn(5, 4, generator=g)
    large[0, :2] = torch.tensor([400.5, 400.0])  # two share the weight
    large[1, 2] = 150.0  # its exponential is beyond float32
    large[3:] = torch.tensor([[1.0], [-1.0]]) * 2**22 + 64 * torch.randperm(4, generator=g)
    around = torch.tensor([[1000.0], [0.0], [-1000.0]]) + torch.randn(3, 6, generator=g)
    return [
        Case(FIRST, (torch.randn(2, 5, generator=g),)),
        Case("large scores", (large,)),
        Case("scores around 1000, 0 and -1000", (around,)),
        Case("one number", (torch.randn(2, 1, generator=g),)),
    ]


@Dataflow
def right(scores):
    p = yield "the weights p", scores.softmax(-1)
    diagonal = yield "the diagonal matrices of p", torch.diag_embed(p)
    products = yield "the products p_i p_j", p[:, :, None] * p[:, None, :]
    return diagonal - products


def on_and_beside(asked: Asked) -> str:
    """The diagonal and the rest, each alone, in the first call: which is right?"""
    if not asked.shaped or asked.shaped[0].label != FIRST:
        return ""
    _, case, _, seen = asked.shaped[0]
    p = case.args[0].double().softmax(-1)
    i, j, eye = p[:, :, None], p[:, None, :], torch.eye(p.size(1)).bool()
    seen = seen.double()

    def looks(where, **others):
        near = (k for k, x in others.items() if (seen - x)[:, where].abs().max() < 1e-4)
        return next(near, "")

    beside = looks(~eye, **{
        "right": -i * j, "p_i p_j": i * j, "p_i (1 - p_j)": i * (1 - j), "-p_i": -i, "-p_j": -j,
        "p_j (1 - p_i)": j * (1 - i), "p_i (1 - p_i)": i * (1 - i), "-p_i^2": -i * i,
        "-p_j^2": -j * j, "0": 0 * i * j})  # fmt: skip
    on = looks(eye, **{
        "p": i + 0 * j, "0": 0 * i * j, "1 - p": 1 - i + 0 * j, "p^2": i * j, "-p^2": -i * j,
        "p - 2 p^2": i - 2 * i * j, "1 - p^2": 1 - i * j, "1 - p - p^2": 1 - i - i * j,
    })  # fmt: skip
    if beside != "0" and any(torch.equal(seen, half(seen)) for half in (torch.tril, torch.triu)):
        return "Only one half is filled; the Jacobian is symmetric."
    if beside == "right":
        on = on or "something else"
        return f"Beside the diagonal all is right; on it stands {on}, not p_i (1 - p_i)."
    return f"Beside the diagonal this is {beside}; there it is -p_i p_j." if beside else ""


def of_weights(says, weights):
    """The mistake of taking these numbers of the scores for the weights."""
    return Mistake(says, lambda s: torch.diag_embed(p := weights(s)) - p[:, :, None] * p[:, None])


EXERCISE = Exercise(
    name="softmax_jacobian",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(on_and_beside, only_loud),
    axes=("b i j",),
    ideas=[
        *(
            of_weights(says, weights)
            for says, weights in (
                ("The softmax is missing: the scores are used as weights.", lambda s: s),
                ("The exponentials are not divided by their sum.", torch.exp),
                ("The weights are sigmoids of the scores; they must sum to 1.", torch.sigmoid),
            )
        ),
        Mistake("The derivatives are summed over the weights, which always gives 0.",
                lambda s: 0 * s),
        Mistake("The Jacobian of the whole batch is returned; only scores of one row interact.",
                partial(torch.autograd.functional.jacobian, lambda s: s.softmax(-1))),
    ],
)  # fmt: skip
