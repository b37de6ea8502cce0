"""Exercise repair_global: a causal model whose chunks read a state of the whole text, repaired."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.linear._chunks import (
    LOOPED,
    RIGHT,
    apart,
    cases,
    shared,
)
from attncourse.grading.exercises.linear._summed import elu_plus_one, with_one
from attncourse.grading.exercises.linear._told import Reads


def definition(query, key, value, size):
    """The loops of the course, pair by pair; the size of a chunk changes nothing."""
    return spec.linear_attention(query, key, value, is_causal=True)[0]


ACCEPTED = Accepted(a_table_of_all_pairs=RIGHT)


@ACCEPTED.add
def a_state_that_grows(query, key, value, size):
    rows = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state, outputs = torch.zeros_like(rows[1].mT @ rows[2]), []
    for q, k, v in zip(*(x.split(size, 2) for x in rows), strict=True):
        outputs.append(q @ state + (q @ k.mT).tril() @ v)
        state = state + k.mT @ v
    read = torch.cat(outputs, dim=2)
    return read[..., :-1] / read[..., -1:]


@ACCEPTED.add
def what_is_left_is_subtracted(query, key, value, size):
    """From the state of everything, chunk by chunk from the end."""
    rows = [x.double() for x in (elu_plus_one(query), elu_plus_one(key), with_one(value))]
    state, outputs = rows[1].mT @ rows[2], []
    for q, k, v in list(zip(*(x.split(size, 2) for x in rows), strict=True))[::-1]:
        state = state - k.mT @ v
        outputs.insert(0, q @ state + (q @ k.mT).tril() @ v)
    read = torch.cat(outputs, 2)
    return read[..., :-1] / read[..., -1:]


@ACCEPTED.add
def running_state(query, key, value, size):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    states = torch.einsum("bhnd,bhne->bhnde", k, value).cumsum(2)
    total = torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2))
    return torch.einsum("bhnd,bhnde->bhne", q, states) / total[..., None]


@ACCEPTED.add
def prefix_of_each_chunk(query, key, value, size):
    q, k = elu_plus_one(query), elu_plus_one(key)
    rows = []
    for a in range(0, q.shape[2], size):
        b = min(a + size, q.shape[2])
        w = torch.tril(q[:, :, a:b] @ k[:, :, a:b].transpose(2, 3))
        sums = w @ value[:, :, a:b] + q[:, :, a:b] @ (k[:, :, :a].mT @ value[:, :, :a])
        total = w.sum(-1) + (q[:, :, a:b] @ k[:, :, :a].sum(2)[..., None])[..., 0]
        rows.append(sums / total.unsqueeze(-1))
    return torch.concat(rows, dim=2)


def as_found(n, m, x):
    """What the code as found counts: every other chunk, and its own up to the query."""
    c, t = apart(n, m, x)
    return ((c != 0) | (t >= 0)).float()


FOUND = "This is the code as found, or does the same: the state is that of the whole text, and without its own chunk there are still the later ones in it."
MISTAKES = Mistakes([
    RIGHT.but(FOUND, pairs=as_found),
    RIGHT.but("The state of the whole text is read as it is: a chunk reads itself twice, and what comes later.",
              pairs=lambda n, m, x: 1 + ((y := apart(n, m, x))[0].eq(0) & (y[1] >= 0)).float()),
    RIGHT.but("Later chunks are hidden from the sum of the values, but still counted in the sum of the weights.", counted=as_found),
    RIGHT.but("Later chunks are hidden from the sum of the weights, but their values are still added up.",
              pairs=as_found, counted=RIGHT.pairs),
    *(Mistake(says, answer) for says, answer in LOOPED),
    *shared(RIGHT, without=("chunks 12", "chunks 13", "counted 12", "values 12")),
])  # fmt: skip

EXERCISE = Exercise(
    name="repair_global",
    answer="causal_in_chunks",
    judge=Reads(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
