"""On leaks, in the chapter of the masks: answers that its exercises do not list."""

import math

import torch
from torch.nn.functional import mse_loss

from unseen import right, wrong


def leak(
    change=torch.randn_like,
    moves=lambda a, b: (a - b).abs().max() > 1e-6,
    found=lambda i: i,
    none=-1,
    last=1,
):
    def f(model, x):
        before = model(x)
        for i in range(x.size(1) - last):
            changed = x.clone()
            changed[:, i + 1 :] = change(x[:, i + 1 :])
            if moves(model(changed)[:, i], before[:, i]):
                return found(i)
        return none

    return f


def seeded(model, x):
    torch.manual_seed(0)
    noise = torch.randn_like(x)
    return leak(lambda tail: noise[:, -tail.size(1) :])(model, x)


def noise_of_its_own(model, x):
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=x.dtype)
    return leak(lambda tail: noise[:, -tail.size(1) :])(model, x)


for says, steps in (
    ("where samples cannot change places", {"change": lambda tail: tail.flip(0)}),
    ("a sum of features", {"change": lambda tail: tail.flip(-1)}),
    ("a leak behind a LayerNorm", {"change": lambda tail: tail + torch.randn(*tail.shape[:2], 1)}),
    (
        "a leak of the difference of two",
        {"change": lambda tail: tail + torch.randn(1, 1, tail.size(2))},
    ),
    *(
        (
            "which a relative tolerance hides",
            {"moves": lambda a, b, r=r: not torch.allclose(a, b, rtol=r, atol=1e-6)},
        )
        for r in (1e-3, 1e-5)
    ),
    (
        "which a relative tolerance hides",
        {"moves": lambda a, b: (a - b).abs().max() > 1e-6 * b.abs().max().clamp(min=1)},
    ),
    ("a leak of 1.2e-6", {"change": lambda tail: tail + 1e-3 * torch.randn_like(tail)}),
    *(
        ("a leak of 1.2e-6 in one number", {"moves": lambda a, b, t=t: (a - b).abs().max() > t})
        for t in (2e-6, 1e-5)
    ),
    (
        "a leak of 1.2e-6 in one number",
        {"change": lambda tail: tail + 1e-5 * torch.randn_like(tail)},
    ),
    *(
        ("rounding errors of 8e-7", {"moves": lambda a, b, t=t: (a - b).abs().max() > t})
        for t in (0, 1e-9, 3e-7, 6e-7)
    ),
    (
        "cancels in a mean or sum",
        {"moves": lambda a, b: (a - b).sum(0).abs().max() > 1e-6},
    ),
    ("a leak of 1.2e-6 in one number", {"moves": lambda a, b: mse_loss(a, b) > 1e-12}),
    (
        "from the last feature to the first",
        {"moves": lambda a, b: ((a - b).abs() > 1e-6).all()},
    ),
    ("seen where none is", {"none": 0}),
    ("the last but one position reads the last", {"last": 2}),
    ("No leak is found in any model", {"change": lambda tail: tail * math.inf}),
    ("expected 0, got the text", {"found": str, "none": "-1"}),
    ("0 counts as False", {"found": lambda i: i or -1}),
):
    wrong("find_the_leak", says, leak(**steps))
wrong("find_the_leak", "the model takes inputs of shape", lambda model, x: leak()(model, x[:1]))
wrong(
    "find_the_leak",
    "Two tensors meet",
    leak(moves=lambda a, b: torch.zeros(len(a), 99).add_(a - b).any()),
)
for answer in (
    seeded,
    noise_of_its_own,
    leak(),
    leak(torch.rand_like),
    leak(lambda tail: 1e9 * torch.randn_like(tail)),
):
    right("find_the_leak", answer)

for number in (0.3, 1.5):
    wrong(
        "leaking_loss",
        f"A mean of {number} over 16 positions",
        "How many positions must guess?",
        number,
    )
wrong("leaking_loss", "not cut off", 0.244)
for number in (0.245, 0.2445, [0.2445]):
    right("leaking_loss", number)
