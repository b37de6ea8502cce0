"""Exercise softmax_jacobian: how far the weights move when a score moves."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, Mistake, seeded


def definition(scores):
    """jacobian(b, i, j) = p_i (1 - p_i) if i == j else -p_i p_j, with p = softmax of row b."""
    found = []
    for row in scores:
        p = spec.softmax(dict(enumerate(row)))
        found += [p[i] * (1 - p[i]) if i == j else -p[i] * p[j] for i in p for j in p]
    return torch.stack(found).view(*scores.shape, -1)


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
    ]


@Dataflow
def right(scores):
    p = yield "the weights p", scores.softmax(-1)
    diagonal = yield "the diagonal matrices of p", torch.diag_embed(p)
    products = yield "the products p_i p_j", p[:, :, None] * p[:, None, :]
    return diagonal - products


def on_and_beside(asked: Asked) -> str:
    """What stands on the diagonal, and what beside it, in the first call?"""
    if not asked.shaped or asked.shaped[0].label != FIRST:
        return ""
    _, case, _, seen = asked.shaped[0]
    p = case.args[0].double().softmax(-1)
    (i, j), eye = torch.broadcast_tensors(p[:, :, None], p[:, None]), torch.eye(p.size(1)).bool()
    terms = {
        "beside": {
            "-p_i p_j": -i * j, "p_i p_j": i * j, "p_i (1 - p_j)": i * (1 - j), "-p_i": -i,
            "p_j (1 - p_i)": j * (1 - i), "p_i (1 - p_i)": i * (1 - i), "-p_j": -j, "0": 0 * i,
        },
        "on": {
            "p_i (1 - p_i)": i * (1 - i), "p_i": i, "p_i^2": i * i, "-p_i^2": -i * i, "0": 0 * i,
            "-p_i (1 - p_i)": -i * (1 - i), "1 - p_i": 1 - i, "p_i (1 + p_i)": i * (1 + i),
            "p_i (1 - 2 p_i)": i * (1 - 2 * i),
        },
    }  # fmt: skip
    says, known = [], False
    for where, named in terms.items():
        off = {term: (seen - x)[:, eye == (where == "on")].abs().max() for term, x in named.items()}
        (right, *_), near = off, [term for term, far in off.items() if far < 1e-4]
        stands = f"stands {(*near, 'something else')[0]} instead of {right}"
        says.append(f"{where} the diagonal {'all is right' if right in near else stands}")
        known |= bool(near)
    return f"{'; '.join(says).capitalize()}." if known else ""


EXERCISE = Exercise(
    name="softmax_jacobian",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(on_and_beside,),
    axes=("b i j",),
    ideas=[
        Mistake("The Jacobian of the whole batch is returned; only scores of one row interact.",
                partial(torch.autograd.functional.jacobian, lambda s: s.softmax(-1))),
    ],
)  # fmt: skip
