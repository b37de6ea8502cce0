"""Exercise delta_step: one token of the gated delta rule."""

import math

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.gated_delta._steps import Step, Steps, behind, outer, read
from attncourse.grading.exercises.gated_delta._token import RARE, SLIPS
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.slips import alone

CALLS = (  # what is special, b h d e, beta, log-decay, gradients
    ("2 samples, 3 heads, a state of 4 by 5", (2, 3, 4, 5), None, None, True),
    ("beta = 1, no decay, a key of length 1", (1, 2, 3, 4), 1.0, 0.0, False),
    ("an empty state", (2, 1, 3, 5), None, None, False),
    ("beta = 0", (1, 3, 2, 4), 0.0, None, False),
    ("a state of 3 by 3", (2, 2, 3, 3), None, None, False),
    ("no decay, a key of length 3, a large state", (3, 1, 5, 4), None, 0.0, False),
    ("everything is forgotten", (1, 2, 4, 3), None, -90.0, False),
    ("everything is forgotten, a very large state", (2, 1, 3, 4), None, -90.0, False),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), beta, log, gradients in CALLS:
        state, query, key, value = normal(g, (b, h, d, e), (b, h, d), (b, h, d), (b, h, e))
        strength, logs = (
            0.2 + 0.6 * torch.rand(b, h, generator=g),
            -0.2 - torch.rand(b, h, generator=g),
        )
        strength = strength if beta is None else torch.full((b, h), beta)
        logs = logs if log is None else torch.full((b, h), log)
        if "length" in what:
            key = F.normalize(key, dim=-1) * (3 if "length 3" in what else 1)
        state *= 1e25 if "very large" in what else 50 if "large" in what else 1
        if "empty" in what:
            state = torch.zeros_like(state)
        found.append(Case(what, (state, query, key, value, strength, logs), gradients=gradients))
    return found


def definition(state, query, key, value, beta, log_decay):
    """The loops of the course for one token behind a state."""
    token = (x[:, :, None] for x in (query, key, value, log_decay, beta))
    output, last = behind(state, *token)
    return output[:, :, 0], last


RIGHT = Step()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def einsum_and_lists(state, query, key, value, beta, log_decay):
    faded = torch.einsum("bhde,bh->bhde", state, log_decay.exp())
    error = value - torch.einsum("bhd,bhde->bhe", key, faded)
    new = faded + torch.einsum("bh,bhd,bhe->bhde", beta, key, error)
    return [torch.einsum("bhd,bhde->bhe", query, new) / math.sqrt(query.shape[-1]), new]


@ACCEPTED.add
def a_matrix_that_erases(state, query, key, value, beta, log_decay):
    """(I - beta k k^T) times the faded state, and then beta k v^T."""
    d = key.size(-1)
    erase = torch.eye(d) - beta[..., None, None] * key[..., :, None] @ key[..., None, :]
    new = log_decay.exp()[..., None, None] * (erase @ state)
    new = new + (beta[..., None] * key)[..., :, None] @ value[..., None, :]
    return (query.unsqueeze(-2) @ new).squeeze(-2) * d**-0.5, new


@ACCEPTED.add
def transposed_state_in_float64(state, query, key, value, beta, log_decay):
    """Values as rows, as some papers write it."""
    s = (state.double() * torch.exp(log_decay.double()).reshape(*beta.shape, 1, 1)).mT
    k, v = key.double().unsqueeze(-1), value.double().unsqueeze(-1)
    s = s - beta[..., None, None] * (s @ k - v) @ k.mT
    return (s @ query.double().unsqueeze(-1)).squeeze(-1) / query.size(-1) ** 0.5, s.mT


@ACCEPTED.add
def head_by_head(state, query, key, value, beta, log_decay):
    outputs, states = [], []
    for s, q, k, v, w, g in zip(*(x.flatten(0, 1) for x in (state, query, key, value, beta, log_decay)), strict=True):  # fmt: skip
        s = s * math.e**g
        s = torch.addr(s, k, w * (v - s.t() @ k))
        states.append(s)
        outputs.append(torch.mv(s.t(), q) / len(q) ** 0.5)
    return torch.stack(outputs).view_as(value), torch.stack(states).view_as(state)


@ACCEPTED.add
def output_without_the_new_state(state, query, key, value, beta, log_decay):
    """The query reads the faded state, and of what is written its product with the key."""
    faded = torch.mul(state, log_decay.exp()[:, :, None, None])
    added = (value - (key[..., None] * faded).sum(-2)) * beta[..., None]
    output = (query[..., None] * faded).sum(-2) + (query * key).sum(-1, keepdim=True) * added
    return output / torch.tensor(query.size(-1)).sqrt(), faded + key[..., None] * added[
        ..., None, :
    ]


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in SLIPS)
MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in RARE)


@MISTAKES.add(
    "beta and the decay are exchanged: exp(log_decay) is what is kept, beta is what is written."
)
def exchanged(state, query, key, value, beta, log_decay):
    return RIGHT(state, query, key, value, log_decay.exp(), beta.log())


@MISTAKES.add("The output is the difference; the output is what the new state says at the query.")
def difference_as_output(state, query, key, value, beta, log_decay):
    said = read(key, log_decay.exp()[..., None, None] * state)
    return value - said, RIGHT(state, query, key, value, beta, log_decay)[1]


@MISTAKES.add("The state is changed in place; the caller finds it changed.")
def in_place(state, query, key, value, beta, log_decay):
    state *= log_decay.exp()[..., None, None]
    state += outer(key, beta[..., None] * (value - read(key, state)))
    return read(query, state) / query.size(-1) ** 0.5, state


EXERCISE = Exercise(
    name="delta_step", judge=Steps(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
