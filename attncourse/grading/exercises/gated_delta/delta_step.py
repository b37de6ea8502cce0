"""Exercise delta_step: one token of the gated delta rule."""

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.explain.mixtures import mixture
from attncourse.spec import state_space

CALLS = (  # special about the call, b h d e, beta, log-decay, gradients
    ("2 samples, 3 heads, a state of 4 by 5", (2, 3, 4, 5), None, None, True),
    ("beta = 1, no decay, a key of length 1", (1, 2, 3, 4), 1.0, 0.0, False),
    ("an empty state", (2, 1, 3, 5), None, None, False),
    ("beta = 0", (1, 3, 2, 4), 0.0, None, True),
    ("a state of 3 by 3", (2, 2, 3, 3), None, None, False),
    ("no decay, a key of length 3, a large state", (3, 1, 5, 4), None, 0.0, False),
    ("everything is forgotten, a very large state", (2, 1, 3, 4), None, -90.0, False),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), beta, log, gradients in CALLS:
        state, query, key, value = normal(g, (b, h, d, e), (b, h, d), (b, h, d), (b, h, e))
        drawn, faded = torch.rand(2, b, h, generator=g)
        strength = 0.2 + 0.6 * drawn if beta is None else torch.full((b, h), beta)
        logs = -0.2 - faded if log is None else torch.full((b, h), log)
        if "length" in what:
            key = F.normalize(key, dim=-1) * (3 if "length 3" in what else 1)
        state *= 0 if "empty" in what else 1e25 if "very" in what else 50 if "large" in what else 1
        found.append(Case(what, (state, query, key, value, strength, logs), gradients=gradients))
    return found


def behind(state, query, key, value, log_decay, beta=None):
    """The loops of the course, behind a state: d tokens with the axes as keys write its rows."""
    b, h, d, e = state.shape
    n, rows = key.size(2), torch.eye(d, dtype=state.dtype).expand(b, h, d, d)
    logs = torch.cat([state.new_zeros(b, h, d), log_decay], 2)
    if beta is not None:
        beta = torch.cat([state.new_ones(b, h, d), beta], 2)
    query, key = (torch.cat([rows, x], 2) for x in (query, key))
    output, last = state_space(query, key, torch.cat([state, value], 2), logs, beta)
    return output[:, :, -n:], last


def definition(state, query, key, value, beta, log_decay):
    """The loops of the course for one token behind a state."""
    token = (x[:, :, None] for x in (query, key, value, log_decay, beta))
    output, last = behind(state, *token)
    return output[:, :, 0], last


@Dataflow
def right(state, query, key, value, beta, log_decay):
    keep = yield "the factors exp(log_decay)", log_decay.exp()
    faded = yield "the numbers of the faded state", keep[..., None, None] * state
    said = yield "the answers of the faded state to the key", (key[..., None, :] @ faded)[..., 0, :]
    erased = yield "key times what the faded state says", key[..., None] * said[..., None, :]
    written = yield "key times value", key[..., None] * value[..., None, :]
    change = yield "beta times their difference", beta[..., None, None] * (written - erased)
    new = yield "the numbers of the new state", faded + change
    read = yield "the products of query and new state", (query[..., None, :] @ new)[..., 0, :]
    return read / query.size(-1) ** 0.5, new


EXERCISE = Exercise(
    name="delta_step",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h e", "b h d e"),
    results=("the output", "the new state"),
    explain=(mixture("state", "key times what the faded state says", "key times value"),),
)
