"""Exercise residual_block: a norm and a residual around any part, before or after."""

import torch

from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, seeded


def read_before(y):
    """A part that mixes positions, as attention does."""
    return torch.tanh(y).cumsum(1) + y.roll(1, 2) ** 2


def bend(y):
    """A part that works on each position by itself."""
    return torch.relu(y + y.flip(2)) - 0.5 * y


NEARLY, SAME = "vectors that are nearly constant", "vectors whose numbers are all the same"
CALLS = (  # what is special, the shape of x, the part, the spread of x
    ("2 samples, 3 positions, width 6, a part that mixes positions", (2, 3, 6), read_before, 1.0),
    ("1 sample, 4 positions, width 5, a part for each position", (1, 4, 5), bend, 3.0),
    (NEARLY, (2, 2, 4), lambda y: 0.5 * y, 3e-3),
    (SAME, (1, 2, 3), torch.zeros_like, 0.0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for first in (True, False):
        for what, shape, part, size in CALLS:
            x = size * torch.randn(shape, generator=g)
            x = x + 0.7 * torch.randn(*shape[:2], 1, generator=g)
            weight, bias = (torch.randn(shape[-1], generator=g) for _ in range(2))
            gradients = size >= 1  # a norm of nearly nothing has gradients that are nearly anything
            label = f"{what}, norm {'first' if first else 'last'}"
            found.append(Case(label, (x, part, weight, bias, first), gradients=gradients))
    return found


@Dataflow
def right(x, part, weight, bias, norm_first):
    def norm(y):
        centred = yield "the vectors less their means", y - y.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        spread = yield "the variances, with 1e-5 added", variance + 1e-5
        scaled = yield "these vectors, divided by the roots", centred / spread.sqrt()
        return (yield "the normed vectors", scaled * weight + bias)

    read = (yield from norm(x)) if norm_first else x
    y = yield "the results of the part", part(read)
    y = yield "the sums of x and these results", x + y
    return y if norm_first else (yield from norm(y))


TOLD = {
    f"{SAME}, norm first": "With part = torch.zeros_like and norm_first=True the block must return "
    "x.",
    f"{SAME}, norm last": "With part = torch.zeros_like and norm_first=False vectors whose numbers "
    "are all the same must come out as bias.",
}


def constant(asked: Asked) -> str:
    """What should become of vectors whose numbers are all the same, and does not."""
    wrong = {x.label for x in asked.shaped}
    return next((says for call, says in TOLD.items() if call in wrong), "")


EXERCISE = Exercise(
    name="residual_block",
    judge=Calls(right, cases),
    right=right,
    axes=("b t d",),
    explain=(constant,),
)
