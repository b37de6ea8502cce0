"""Exercise repair_decay: a gated chunk whose exponents fade the wrong tokens, repaired."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.exercises.gated_delta.decay_mask import later
from attncourse.grading.exercises.gated_delta.delta_step import behind

CALLS = (  # special about the call, b h t d e, the range of the log-decays, gradients
    ("4 tokens behind a state", (1, 2, 4, 3, 7), (-1.2, -0.2), True),
    ("2 samples, 3 heads, 3 tokens", (2, 3, 3, 4, 5), (-0.9, -0.1), True),
    ("an empty state, and a last value that is very large", (1, 1, 5, 2, 3), (-0.9, -0.1), False),
    ("4 tokens behind an empty state", (1, 2, 4, 3, 5), (-0.9, -0.2), True),
    ("nothing fades", (1, 2, 3, 4, 4), (0.0, 0.0), False),
    ("very strong decay", (1, 1, 9, 2, 3), (-150.0, -100.0), True),  # float64 ends at exp(709)
    ("very strong decay, and a very large state", (1, 1, 3, 2, 4), (-150.0, -100.0), False),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, t, d, e), (low, high), gradients in CALLS:
        query, key, value, state = normal(g, (b, h, t, d), (b, h, t, d), (b, h, t, e), (b, h, d, e))
        logs = low + (high - low) * torch.rand(b, h, t, generator=g)
        if "empty" in what:
            state *= 0
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
    query, total = query / math.sqrt(query.size(-1)), log_decay.cumsum(-1)
    total = yield "the running sums", total
    pairs = yield "the differences of running sums", total[..., :, None] - total[..., None, :]
    fading = pairs.masked_fill(later(pairs), -math.inf).exp()
    fading = yield "the factors between a token and those behind it", fading
    past = yield "the parts from the old state", (query * total.exp()[..., None]) @ state
    own = yield "the parts from this chunk", (query @ key.mT * fading) @ value
    rest = yield "the sums behind each token", total[..., -1:] - total
    new = yield "the numbers that the chunk writes", (key * rest.exp()[..., None]).mT @ value
    return past + own, total[..., -1, None, None].exp() * state + new


EXERCISE = Exercise(
    name="repair_decay",
    answer="gated_chunk",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h t e", "b h i j"),
    results=("the output", "the new state"),
)
