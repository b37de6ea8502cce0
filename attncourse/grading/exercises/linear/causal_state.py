"""Exercise causal_state: a token is read and written, and the past stays as large as it was."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.linear._slips import features, limits, results, totals
from attncourse.grading.exercises.linear._summed import (
    EXTREMES,
    Given,
    Summed,
    elu_plus_one,
    extremes,
    faint,
)
from attncourse.grading.exercises.linear._told import Reads
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import mistakes_of
from attncourse.grading.slips import alone


def definition(query, key, value, state, total):
    """One token of the course's loop, with the sums that were there already."""
    q, k, v = (x[:, :, None] for x in (spec.elu_plus_one(query), spec.elu_plus_one(key), value))  # fmt: skip
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    none = torch.zeros_like(q[..., 0])
    read, new = spec.state_space(q, k, v, none, scale=1.0)
    old = torch.cat([state, total[..., None]], dim=-1)
    read = (read + q @ old)[:, :, 0]
    return read[..., :-1] / read[..., -1:], state + new[..., :-1], total + new[..., -1]


CALLS = (  # what is special, b h d e, how many tokens came before, how loud
    ("2 samples, 3 heads, 7 tokens before, values 5 wide", (2, 3, 4, 5), 7, 1),
    ("the first token: state and total are 0", (3, 2, 5, 4), 0, 1),
    ("1 sample, 1 head, 1 token before", (1, 1, 3, 6), 1, 1),
    ("features near 0 and far from it", (2, 4, 3, 2), 5, 12),
    ("the first token, its features near 0, 1 value", (2, 3, 2, 1), 0, 9),
    (f"1 token before, {EXTREMES}", (2, 2, 2, 4), 1, extremes),
    ("keys as wide as values, 20 tokens before", (3, 1, 4, 4), 20, 1),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), past, loud in CALLS:
        query, key, value = normal(g, (b, h, d), (b, h, d), (b, h, e))
        keys, values = normal(g, (b, h, past, d), (b, h, past, e))
        if callable(loud):
            for tokens in (key, value), (keys, values):
                loud(query, *tokens)
        keys = elu_plus_one(keys)
        if not callable(loud) and loud > 1:  # the product with the total is below 1, or nearly 0
            query, key = faint(query), faint(key)
            if past:
                key[..., 0], key[..., -1] = loud, -6.0
        args = query, key, value, keys.mT @ values, keys.sum(2)
        found.append(Case(what, args, gradients=loud == 1))
    return found


def given(query, key, value, state, total):
    """The token as a text of its own, behind a state."""
    rows = (x[:, :, None] for x in (query, key, value))
    return Given(*rows, state=torch.cat([state, total[..., None]], dim=-1))


def answer(output, state, x):
    """(output, state, total) without the axis of tokens."""
    return output[:, :, 0], state[..., :-1], state[..., -1]


RIGHT = Summed(given, answer=answer)
ACCEPTED = Accepted(in_steps=RIGHT)


@ACCEPTED.add
def einsums(query, key, value, state, total):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    state = state + torch.einsum("bhd,bhe->bhde", k, value)
    total = total + k
    read = torch.einsum("bhd,bhde->bhe", q, state)
    return read / torch.einsum("bhd,bhd->bh", q, total)[..., None], state, total


@ACCEPTED.add
def broadcast(query, key, value, state, total):
    q, k = (torch.where(x > 0, x + 1, x.exp()) for x in (query, key))
    state = k.unsqueeze(-1) * value.unsqueeze(-2) + state
    total = torch.add(total, k)
    weights = (q * total).sum(dim=-1, keepdim=True)
    return [(q.unsqueeze(-1) * state).sum(dim=-2) / weights, state, total]


@ACCEPTED.add
def past_and_token_apart(query, key, value, state, total):
    """What is read of the past, and the weight of the token itself."""
    q, k = elu_plus_one(query), elu_plus_one(key)
    own = (q * k).sum(-1)[..., None]
    past = (q[..., None, :] @ state)[..., 0, :]
    output = (past + own * value) / ((q * total).sum(-1)[..., None] + own)
    return output, state + k[..., :, None] @ value[..., None, :], k + total


@ACCEPTED.add
def head_by_head_in_double(query, key, value, state, total):
    q, k, v, s, z = (x.double() for x in (query, key, value, state, total))
    q, k = torch.exp(q.clamp(max=0)) + q.relu(), torch.exp(k.clamp(max=0)) + k.relu()
    rows, states = [], []
    for b in range(len(q)):
        for h in range(q.shape[1]):
            new = s[b, h] + torch.outer(k[b, h], v[b, h])
            states.append(new)
            rows.append(q[b, h] @ new / (q[b, h] @ (z[b, h] + k[b, h])))
    outputs, state = (torch.stack(x).unflatten(0, q.shape[:2]) for x in (rows, states))
    return outputs, state, z + k


def columns(state, total):
    """A new state of other columns: ``state`` and ``total`` are (old, written) -> new."""

    def store(k, v, x):
        old, new = x.state, RIGHT.store(k, v, x._replace(state=None))
        return torch.cat(
            [state(old[..., :-1], new[..., :-1]), total(old[..., -1:], new[..., -1:])], -1
        )

    return {"store": store}


def read_and_kept(change):
    """A state that is both read and handed on: ``change`` makes it of (q, k, v, old)."""

    def wrong(query, key, value, state, total):
        q, k = elu_plus_one(query), elu_plus_one(key)
        state, total = change(q, k, value, state, total)
        return (
            (q[..., None, :] @ state)[..., 0, :] / (q * total).sum(-1, keepdim=True),
            state,
            total,
        )

    return wrong


def written(k, v):
    return k[..., None] * v[..., None, :]


STEPS = (
    ("The old state and total are read before the token is written; a token reads itself, too.", {"pairs": lambda n, m, x: torch.zeros(n, m)}),
    ("The output reads the old state, without the token itself, but the new total.",
     {"pairs": lambda n, m, x: torch.zeros(n, m), "counted": lambda n, m, x: torch.ones(n, m)}),
    ("The output reads the new state, but is divided by what the old total gives.", {"counted": lambda n, m, x: torch.zeros(n, m)}),
    ("The output is of the token alone; it reads the state of the past, too.", {"carried": lambda q, s: 0 * (q @ s), "carried_total": lambda q, s: 0 * (q @ s)}),
    ("The total that divides has the token only; that of the past is missing.", {"carried_total": lambda q, s: 0 * (q @ s)}),
    ("The state of the past is not in the output, though its total is.", {"carried": lambda q, s: 0 * (q @ s)}),
    ("The state handed on is that of this token alone; add it to the old one.", columns(lambda a, b: b, lambda a, b: b)),
    ("The total handed on is that of this token alone; add it to the old one.", columns(torch.add, lambda a, b: b)),
    ("The matrix handed on is that of this token alone; add it to the old one.", columns(lambda a, b: b, torch.add)),
    ("The old state and total are handed on; the token must be in them.", columns(lambda a, b: a, lambda a, b: a)),
    ("The old total is handed on; the token must be in it.", columns(torch.add, lambda a, b: a)),
    ("The old state is handed on, though the total is new; the token must be in both.", columns(lambda a, b: a, torch.add)),
    ("The token is subtracted from the state; add it.", columns(torch.sub, torch.sub)),
    ("The mean of old and new is handed on; add them.", columns(lambda a, b: (a + b) / 2, lambda a, b: (a + b) / 2)),
    ("The token is written twice into what is handed on.", columns(lambda a, b: a + 2 * b, lambda a, b: a + 2 * b)),
    ("The state handed on is detached: no gradient flows through it.", columns(lambda a, b: (a + b).detach(), lambda a, b: (a + b).detach())),
    ("The state that comes in is detached: no gradient flows back to it.", {"given": lambda *x: (y := given(*x))._replace(state=y.state.detach())}),
    ("The total handed on counts the tokens; it adds up the features of the keys.", columns(torch.add, lambda a, b: a + 1)),
    ("The total handed on is divided already; it stays a sum.", columns(torch.add, lambda a, b: (a + b) / (a + b).sum(-2, keepdim=True))),
    ("The state handed on is divided by the total; it stays a sum.", columns(lambda a, b: a + b, torch.add) | {"answer": lambda o, s, x: (o[:, :, 0], s[..., :-1] / s[..., -1:], s[..., -1])}),
    ("The order is (state, total, output); return (output, state, total).", {"answer": lambda o, s, x: (*answer(o, s, x)[1:], o[:, :, 0])}),
    ("The order is (output, total, state); return (output, state, total).", {"answer": lambda o, s, x: answer(o, s, x)[::2] + answer(o, s, x)[1:2]}),
    ("Only the output is returned; return (output, state, total).", {"answer": lambda o, s, x: o[:, :, 0]}),
    ("The total is not returned; return (output, state, total).", {"answer": lambda o, s, x: answer(o, s, x)[:2]}),
    ("Output and state are right, and the total has an axis too many at its end.", {"answer": lambda o, s, x: (*answer(o, s, x)[:2], s[..., -1:])}),
    ("The state is returned transposed; a row belongs to a feature of the key.", {"answer": lambda o, s, x: (o[:, :, 0], s[..., :-1].mT, s[..., -1])}),
    ("The output has an axis for tokens; it is (batch, heads, e).", {"answer": lambda o, s, x: (o, *answer(o, s, x)[1:])}),
)  # fmt: skip
MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in STEPS])
MISTAKES += mistakes_of(
    RIGHT, features, totals, results,
    without=("averaged", "tokens first", "merged", "last", "divided by position", "divided by all"),
)  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, limits))
MISTAKES += [Mistake(says, wrong) for says, wrong in (
    ("The key is written without its features; the state adds up features of the key times the value.",
     lambda q, k, v, s, t: (*RIGHT(q, k, v, s, t)[:1], s + written(k, v), t + elu_plus_one(k))),
    ("The state decays here; nothing is forgotten in linear attention.", read_and_kept(lambda q, k, v, s, t: (0.9 * s + written(k, v), 0.9 * t + k))),
    ("The query is written into the state; the key is.", read_and_kept(lambda q, k, v, s, t: (s + written(q, v), t + q))),
    ("The query is in the total; the key is.", read_and_kept(lambda q, k, v, s, t: (s + written(k, v), t + q))),
    ("The state is asked by the key; the query asks.",
     lambda q, k, v, s, t: (RIGHT(k, k, v, s, t)[0], *RIGHT(q, k, v, s, t)[1:])),
    ("The state that came in is changed in place; make a new one.", lambda q, k, v, s, t: RIGHT(q, k, v, s.mul_(2).div_(2).add_(written(elu_plus_one(k), v)).sub_(0), t)),
)]  # fmt: skip

EXERCISE = Exercise(
    name="causal_state",
    answer="state_step",
    judge=Reads(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
