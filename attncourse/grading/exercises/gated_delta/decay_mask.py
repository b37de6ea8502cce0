"""Exercise decay_mask: decay as a mask, the table of what each token still counts."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.spec import state_space

CALLS = (  # special about the call, b h t, the range of the log-decays, gradients
    ("only token 2 of 9 forgets", (1, 1, 9), (0.0, 0.0), True),
    ("2 samples, 3 heads, 5 tokens", (2, 3, 5), (-1.5, -0.05), True),
    ("nothing forgets", (1, 2, 3), (0.0, 0.0), False),
    ("strong decay", (1, 2, 4), (-80.0, -5.0), False),
    ("very strong decay", (1, 2, 9), (-150.0, -100.0), True),  # float64 ends at exp(709)
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, sizes, (low, high), gradients in CALLS:
        logs = low + (high - low) * torch.rand(sizes, generator=g)
        if "only" in what:
            logs[..., 2] = -0.3 - torch.rand((), generator=g)
        found.append(Case(what, (logs,), gradients=gradients))
    return found


def definition(log_decay):
    """What a state of one channel holds, token by token, when token j writes a 1 into column j."""
    (*_, n), ones = log_decay.shape, torch.ones_like(log_decay)[..., None]
    columns = torch.eye(n, dtype=log_decay.dtype).expand(*log_decay.shape, n)
    return state_space(ones, ones, columns, log_decay, scale=1.0)[0]


def exactly(table):
    """What a tolerance overlooks: exact zeros, and the digits of numbers down to 1e-37."""
    ahead, logs = table.double().triu(1), table.double().tril().clamp(min=1e-37).log()
    yield "later tokens count exactly 0", not ahead.any() or f"no, some {ahead.abs().max():.3g}"
    yield "the logarithms of the numbers", logs


def later(table):
    return torch.ones(table.shape[-2:], dtype=torch.bool).triu(1)


@Dataflow
def right(log_decay):
    total = yield "the running sums", log_decay.cumsum(-1)
    since = yield "the running sums behind which tokens are written", total
    pairs = yield "the differences of running sums", total[..., :, None] - since[..., None, :]
    past = yield "the differences behind the mask", pairs.masked_fill(later(pairs), -math.inf)
    return past.exp()


EXERCISE = Exercise(
    name="decay_mask",
    judge=Calls(definition, cases, also=exactly),
    right=right,
    axes=("b h i j",),
    ideas=[
        right.but(
            "A token's own decay fades it, too; it is written behind that, so the diagonal is 1.",
            "the running sums behind which tokens are written",
            lambda since: torch.nn.functional.pad(since, (1, 0))[..., :-1],
        ),
    ],
)
