"""Exercise continue_state: a text is read in pieces, and what was read before must not be lost; repaired."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.linear._slips import SHARED, limits
from attncourse.grading.exercises.linear._summed import (
    EXTREMES,
    UNIT,
    Given,
    Summed,
    drawn,
    elu_plus_one,
    extremes,
    with_one,
)
from attncourse.grading.exercises.linear._told import Reads
from attncourse.grading.mistakes import mistakes_of
from attncourse.grading.slips import alone


def definition(query, key, value, state):
    """The loop of the course, token by token, and what the state of before adds."""
    q, k = spec.elu_plus_one(query), spec.elu_plus_one(key)
    v = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    read, new = spec.state_space(q, k, v, torch.zeros_like(q[..., 0]), scale=1.0)
    if state is not None:
        read, new = read + q @ state, new + state
    return read[..., :-1] / read[..., -1:], new


def before(b, h, d, e, tokens):
    """Draws a state of some tokens."""

    def state(g):
        k = elu_plus_one(torch.randn(b, h, tokens, d, generator=g))
        return k.mT @ with_one(torch.randn(b, h, tokens, e, generator=g))

    return state


def far_before(b, h, d, e, tokens):
    """Draws such a state whose numbers are small in head 0, and large in head 1."""
    drawn, small = before(b, h, d, e, tokens), torch.tensor([*[2e-7] * e, 1e-5])
    return lambda g: drawn(g) * torch.stack([small, torch.full((e + 1,), 1e5)])[:, None]


CALLS = (  # what is special, b h n m d e, how loud, state
    ("a state of 6 tokens, 2 samples, 3 heads, 4 new tokens, values 6 wide", (2, 3, 4, 4, 5, 6), 1, before(2, 3, 5, 6, 6)),
    ("the first piece: no state", (3, 2, 5, 5, 4, 3), 1, None),
    (f"no state, {UNIT}", (1, 2, 4, 4, 3, 0), 1, None),
    ("a state of 9 tokens, 1 new token", (2, 1, 1, 1, 3, 4), 1, before(2, 1, 3, 4, 9)),
    ("no state, 4 tokens with features near 0 and far from it, values of 1 number", (2, 1, 4, 4, 2, 1), 4, None),
    (f"a state, 5 new tokens, {EXTREMES}", (2, 2, 5, 5, 3, 4), extremes, far_before(2, 2, 3, 4, 4)),
    ("a state of 1 token, 7 new tokens, features near 0 and far from it", (1, 3, 7, 7, 2, 5), 3, before(1, 3, 2, 5, 1)),
)  # fmt: skip


def cases(seed: int) -> list:
    return drawn(seed, CALLS)


def both(output, state, x):
    """What is returned."""
    return output, state


RIGHT = Summed(Given, answer=both)
ACCEPTED = Accepted(a_table=RIGHT)


@ACCEPTED.add
def token_by_token(query, key, value, state):
    q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state = 0 if state is None else state
    rows = []
    for i in range(q.size(2)):
        state = state + k[:, :, i, :, None] * v[:, :, i, None]
        read = (q[:, :, i, None] @ state)[:, :, 0]
        rows.append(read[..., :-1] / read[..., -1:])
    return torch.stack(rows, 2), state


@ACCEPTED.add
def running_states(query, key, value, state):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    states = torch.einsum("bhnd,bhne->bhnde", k, F.pad(value, (0, 1), value=1.0)).cumsum(2)
    if state is not None:
        states = states + state[:, :, None]
    read = torch.einsum("bhnd,bhnde->bhne", q, states)
    return [read[..., :-1] / read[..., -1].unsqueeze(-1), states[:, :, -1]]


@ACCEPTED.add
def two_sums(query, key, value, state):
    q, k = elu_plus_one(query).double(), elu_plus_one(key).double()
    if state is None:
        state = torch.zeros(*key.shape[:2], key.size(-1), value.size(-1) + 1)
    old, total = state.double().split([value.size(-1), 1], dim=-1)
    table = torch.tril(q @ k.transpose(-2, -1))
    output = (table @ value.double() + q @ old) / (table.sum(-1, keepdim=True) + q @ total)
    new = torch.cat([old + k.mT @ value.double(), total + k.sum(2)[..., None]], -1)
    return output, new


@ACCEPTED.add
def two_halves(query, key, value, state):
    """Reads its piece in two pieces."""
    n, outputs = max(1, query.shape[2] // 2), []
    for q, k, v in zip(*(x.split(n, 2) for x in (query, key, value)), strict=True):
        output, state = RIGHT(q, k, v, state)
        outputs.append(output)
    return torch.cat(outputs, 2), state


def only_new(k, v, x):
    return k.mT @ with_one(v)


def stored(change):
    """Another state: ``change`` makes it of the old one and what is written."""

    def store(k, v, x):
        new = only_new(k, v, x)
        return new if x.state is None else change(x.state, new)

    return {"store": store}


def parts(values, total):
    """Another state, whose columns of values and of weights are made apart."""
    return stored(
        lambda a, b: torch.cat(
            [values(a[..., :-1], b[..., :-1]), total(a[..., -1:], b[..., -1:])], -1
        )
    )


def none(q, state):
    return 0 * (q @ state)


def later(q, state):
    """Only the first token of a piece reads the state."""
    return (q @ state) * (torch.arange(q.size(2)) == 0)[:, None]


def in_place(query, key, value, state):
    output, new = RIGHT(query, key, value, state)
    if state is not None:
        state.add_(only_new(elu_plus_one(key), value, None))
    return output, new


STEPS = (
    ("This is the code as found: the total leaves out the state of before, and the state handed on is that of this piece alone.",
     {"carried_total": none, "store": only_new}),
    ("The total still leaves out the state of before; what is handed on is right.", {"carried_total": none}),
    ("The outputs are right, but the state handed on is still that of this piece alone: a third piece would not know the first.",
     {"store": only_new}),
    ("The values of the state of before are not read, though its weights are counted.", {"carried": none}),
    ("The state of before is not read at all: each piece begins anew.", {"carried": none, "carried_total": none}),
    ("The state of before is neither read nor handed on: each piece begins anew.", {"carried": none, "carried_total": none, "store": only_new}),
    ("The old state is handed on, without this piece.", stored(lambda a, b: a)),
    ("The old state is handed on twice.", stored(lambda a, b: 2 * a + b)),
    ("This piece is written twice into the state.", stored(lambda a, b: a + 2 * b)),
    ("The mean of the old and the new state is handed on; they are added.", stored(lambda a, b: (a + b) / 2)),
    ("This piece is subtracted from the state; add it.", stored(lambda a, b: a - b)),
    ("The product of both states is handed on; they are added.", stored(lambda a, b: a * b)),
    ("The larger of both states is handed on, number by number; they are added.", stored(torch.maximum)),
    ("The state handed on fades: 0.9 of the old one is kept. Nothing is forgotten here.", stored(lambda a, b: 0.9 * a + b)),
    ("The state handed on has the old values, and only the weights of this piece.", parts(torch.add, lambda a, b: b)),
    ("The state handed on has only the values of this piece, though it counts all weights.", parts(lambda a, b: b, torch.add)),
    ("The weights of this piece are missing in the state handed on.", parts(torch.add, lambda a, b: a)),
    ("The values of this piece are missing in the state handed on.", parts(lambda a, b: a, torch.add)),
    ("The state handed on is detached: no gradient flows from piece to piece.", stored(lambda a, b: (a + b).detach())),
    ("The old state is detached: no gradient flows back to it.", {"given": lambda q, k, v, s: Given(q, k, v, s if s is None else s.detach())}),
    ("Only the first token of a piece reads the state of before.", {"carried": later, "carried_total": later}),
    ("The state of before counts twice.", {"carried": lambda q, s: 2 * (q @ s), "carried_total": lambda q, s: 2 * (q @ s)}),
    ("The state has this piece in it before it is read, and the piece is read once more.", {"pairs": lambda n, m, x: 1 + torch.ones(n, m).tril()}),
    ("The state has all of this piece in it before it is read: later tokens are read.", {"pairs": lambda n, m, x: torch.ones(n, m)}),
    ("The state handed on lacks the last column, which counts.", {"answer": lambda o, s, x: (o, s[..., :-1])}),
    ("The state handed on is transposed; a row belongs to a feature.", {"answer": lambda o, s, x: (o, s.mT)}),
    ("The state handed on is divided by its last column; it stays a sum.", {"answer": lambda o, s, x: (o, s / s[..., -1:])}),
    ("The order is (state, output); return (output, state).", {"answer": lambda o, s, x: (s, o)}),
    ("Only the output is returned; return (output, state).", {"answer": lambda o, s, x: o}),
    ("The state that came in is returned as it was.", {"answer": lambda o, s, x: (o, x.state)}),
    ("Values and weights of the state stand in another order: the column that counts is the last.",
     {"answer": lambda o, s, x: (o, s.roll(1, -1))}),
)  # fmt: skip
MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in STEPS])
MISTAKES += mistakes_of(RIGHT, *SHARED, without=("all read", "all and past"))
MISTAKES += alone(mistakes_of(RIGHT, limits))
MISTAKES += [Mistake("The state that came in is changed in place; make a new one.", in_place)]

EXERCISE = Exercise(
    name="continue_state",
    answer="read_piece",
    judge=Reads(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
