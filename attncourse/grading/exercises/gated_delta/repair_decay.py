"""Exercise repair_decay: a gated chunk whose exponents fade the wrong tokens, repaired."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.exercises.gated_delta.delta_step import behind

CALLS = (  # special about the call, b h t d e, the range of the log-decays, gradients
    ("4 tokens behind a state", (1, 2, 4, 3, 7), (-1.2, -0.2), True),
    ("2 samples, 3 heads, 3 tokens", (2, 3, 3, 4, 5), (-0.9, -0.1), True),
    ("an empty state, and a last value that is very large", (1, 1, 5, 2, 3), (-0.9, -0.1), False),
    ("one token", (2, 2, 1, 3, 4), (-0.9, -0.3), False),
    ("nothing fades", (1, 2, 3, 4, 4), (0.0, 0.0), False),
    ("very strong decay", (1, 1, 9, 2, 3), (-150.0, -100.0), True),  # float64 ends at exp(709)
    ("very strong decay, and a very large state", (1, 1, 3, 2, 4), (-150.0, -100.0), False),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, t, d, e), (low, high), gradients in CALLS:
        shapes = (b, h, t, d), (b, h, t, d), (b, h, t, e), (b, h, d, e)
        query, key, value, state = normal(g, *shapes)
        logs = low + (high - low) * torch.rand(b, h, t, generator=g)
        state = torch.zeros_like(state) if "empty" in what else state
        if "large" in what:
            state *= 1e25  # exp(-50) of it would still be seen
            value[:, :, 0 if state.any() else -1] *= 1e25
        found.append(Case(what, (query, key, value, logs, state), gradients=gradients))
    return found


def definition(query, key, value, log_decay, state):
    """The loops of the course, token by token behind the state."""
    return behind(state, query, key, value, log_decay)


@Dataflow
def right(query, key, value, log_decay, state):
    total = yield "the running sums", log_decay.cumsum(-1)
    reads = yield "the exponents with which tokens read the old state", total
    pairs = yield (
        "the exponents between a token and those behind it",
        total[..., :, None] - total[..., None, :],
    )
    writes = yield (
        "the exponents with which the new state holds the tokens",
        total[..., -1:] - total,
    )
    keeps = yield "the exponents with which the new state holds the old one", total[..., -1:]
    later = torch.ones(pairs.shape[-2:], dtype=torch.bool).triu(1)
    fading = yield (
        "the factors between a token and those behind it",
        pairs.masked_fill(later, -math.inf).exp(),
    )
    past = yield (
        "the parts of the output from the old state",
        (query * reads.exp()[..., None]) @ state,
    )
    own = yield "the parts of the output from this chunk", (query @ key.mT * fading) @ value
    new = yield "the numbers that the chunk writes", (key * writes.exp()[..., None]).mT @ value
    return (past + own) / math.sqrt(query.size(-1)), keeps.exp()[..., None] * state + new


READS, HOLDS = (
    f"the exponents with which {x}"
    for x in ("tokens read the old state", "the new state holds the tokens")
)
EXERCISE = Exercise(
    name="repair_decay",
    answer="gated_chunk",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h t e", "b h i j"),
    results=("the output", "the new state"),
    measures=("gradients",),
    ideas=[
        right.but(
            "Tokens read the old state as it was before the reading token has faded it.",
            READS,
            lambda x: x - x.diff(dim=-1, prepend=0 * x[..., :1]),
        ),
        right.but(
            "The new state holds each token as faded by those up to it; it has faded by those "
            "behind it.",
            HOLDS,
            lambda x: x[..., :1] - x,
        ),
    ],
)
