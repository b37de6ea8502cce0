"""Exercise find_the_leak: which position is the first to read the future?"""

from functools import partial

import torch
from torch import Tensor

from attncourse.grading.exercise import Asked, Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.places import calls_by
from attncourse.grading.leaky import leaking_models


def cases(seed: int) -> list[Case]:
    """A model and an input for each label, drawn on their own: one tells nothing about another."""
    g = seeded(seed, "sizes")
    b, d, e = (3 + torch.randperm(5, generator=g)[:3]).tolist()
    n = int(torch.randint(8, 11, (), generator=g))
    found = []
    for number in torch.randperm(len(LABELS), generator=seeded(seed, "order")).tolist():
        label = LABELS[number]
        g = seeded(seed, label)
        x = torch.randn(1 if "one sample" in label else b, n, d, generator=g).double()
        model = leaking_models(x, e, g)[label]
        found.append(Case(label, (partial(called, model, x.shape), x), gradients=False))
    return found


def called(model, shape, x):
    """The output of a model that takes inputs of one shape only."""
    if not isinstance(x, Tensor) or x.shape != shape:
        raise ValueError(f"the model takes inputs of shape {tuple(shape)}")
    return model(x)


LABELS = tuple(leaking_models(torch.zeros(3, 7, 3), 3, torch.Generator()))


def right(model, x):
    before = model(x)
    for i in range(x.size(1) - 1):
        changed = x.clone()
        changed[:, i + 1 :] = torch.randn_like(x[:, i + 1 :])
        if (model(changed) - before)[:, i].abs().max() > 1e-6:
            return i
    return -1


def everywhere(asked: Asked) -> str:
    """The same is found in all models."""
    found = {x.seen if type(x.seen) is int else None for x in asked.calls}
    if found not in ({-1}, {0}):
        return ""
    return (
        f"{found.pop()} is returned for every model. If you change the input: is that done in a "
        "copy, by enough, only behind position i, and is no number NaN?"
    )


EXERCISE = Exercise(
    name="find_the_leak",
    answer="first_leak",
    judge=Counts(right, cases),
    right=right,
    explain=(
        everywhere,
        calls_by(
            ("The first leak is missed in", lambda right, x: right != -1 and not -1 < x <= right),
            ("A leak is seen where none is, or too early, in",
             lambda right, x: x != -1 and (right == -1 or x < right)),
            order=LABELS,
        ),
    ),
    ideas=[
        Mistake("Position 0 is taken for no leak: 0 counts as False in `or` and `if`.",
                lambda model, x: right(model, x) or -1),
    ],
)  # fmt: skip
