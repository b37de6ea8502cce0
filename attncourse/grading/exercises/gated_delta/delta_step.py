"""Exercise delta_step: one token of the gated delta rule."""

import math

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.gated_delta._steps import Step, Steps, behind, outer, read
from attncourse.grading.inputs import normal
from attncourse.grading.observe import Case

CALLS = (  # what is special, b h d e, beta, log-decay, gradients
    ("2 samples, 3 heads, a state of 4 by 5", (2, 3, 4, 5), None, None, True),
    ("beta = 1, no decay, a key of length 1", (1, 2, 3, 4), 1.0, 0.0, False),
    ("an empty state", (2, 1, 3, 5), None, None, False),
    ("beta = 0", (1, 3, 2, 4), 0.0, None, False),
    ("a state of 3 by 3", (2, 2, 3, 3), None, None, False),
    ("no decay, a key of length 3", (3, 1, 5, 4), None, 0.0, False),
    ("everything is forgotten", (1, 2, 4, 3), None, -90.0, False),
)


def cases(seed: int) -> list[Case]:
    g, found = torch.Generator().manual_seed(seed), []
    for what, (b, h, d, e), beta, log, gradients in CALLS:
        state, query, key, value = normal(g, (b, h, d, e), (b, h, d), (b, h, d), (b, h, e))
        strength, logs = (
            0.2 + 0.6 * torch.rand(b, h, generator=g),
            -0.2 - torch.rand(b, h, generator=g),
        )
        strength = strength if beta is None else torch.full((b, h), beta)
        logs = logs if log is None else torch.full((b, h), log)
        if "length" in what:
            key = F.normalize(key, dim=-1) * float(what[-1] if what[-1].isdigit() else 1)
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


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The value is added as it is; the delta rule adds the difference to what the state says at the key.",
     {"change": lambda v, said, beta: beta * v}),
    ("The value is added whole, without beta and without what the state says already.", {"change": lambda v, said, beta: v}),
    ("What the state says is read before it has faded; fade it first.", {"asked": lambda old, faded: old}),
    ("The state fades behind the write, so that the new token fades, too; fade it first.",
     {"asked": lambda old, faded: old, "update": lambda f, table, beta, keep, old: keep * (old + table)}),
    ("The state fades twice, before the write and behind it.", {"update": lambda f, table, beta, keep, old: keep * (f + table)}),
    ("What is written fades, too; only the old state does.", {"update": lambda f, table, beta, keep, old: f + keep * table}),
    ("The difference is added to the state that has not faded.", {"update": lambda f, table, beta, keep, old: old + table}),
    ("The state does not fade: log_decay is not used.", {"keep": torch.zeros_like, "asked": lambda old, faded: old,
      "update": lambda f, table, beta, keep, old: old + table}),
    ("log_decay itself is the factor here; it is the logarithm: take exp.", {"keep": lambda g: g}),
    ("The factor is exp(-log_decay): the state grows where it should fade.", {"keep": lambda g: torch.exp(-g)}),
    ("The factor is 1 - exp(log_decay): what should be kept is forgotten.", {"keep": lambda g: 1 - g.exp()}),
    ("The factor is a sigmoid of log_decay; take exp.", {"keep": torch.sigmoid}),
    ("The factor is 1 + log_decay, which is exp for small ones only.", {"keep": lambda g: 1 + g}),
    ("The factor is 2 to the power of log_decay; the logarithm is natural.", {"keep": lambda g: 2.0**g}),
    ("The factor is exp(log_decay / 2); it is exp(log_decay).", {"keep": lambda g: torch.exp(g / 2)}),
    ("beta is not used; only this part of the difference is written.", {"change": lambda v, said, beta: v - said}),
    ("beta multiplies the value only; it multiplies the whole difference.", {"change": lambda v, said, beta: beta * v - said}),
    ("beta multiplies only what the state says; it multiplies the whole difference.", {"change": lambda v, said, beta: v - beta * said}),
    ("1 - beta is used for beta.", {"change": lambda v, said, beta: (1 - beta) * (v - said)}),
    ("beta is applied twice.", {"change": lambda v, said, beta: beta * beta * (v - said)}),
    ("The difference is divided by beta; multiply it.", {"change": lambda v, said, beta: (v - said) / beta.clamp(min=1e-3)}),
    ("A sigmoid is taken of beta; it is given as it is to be used.", {"change": lambda v, said, beta: beta.sigmoid() * (v - said)}),
    ("1 - beta of the whole state is kept, as in an average; the delta rule changes it at the key only.",
     {"update": lambda f, table, beta, keep, old: (1 - beta) * f + table}),
    ("1 - beta of the whole state is kept, and beta of the value is added: an average. The delta rule changes the state at the key only.",
     {"change": lambda v, said, beta: beta * v, "update": lambda f, table, beta, keep, old: (1 - beta) * f + table}),
    ("The difference has the wrong sign: it is value minus what the state says.", {"change": lambda v, said, beta: beta * (said - v)}),
    ("What the state says is added to the value; subtract it.", {"change": lambda v, said, beta: beta * (v + said)}),
    ("Only the erasing is left: the value is not written.", {"change": lambda v, said, beta: -beta * said}),
    ("The old state is lost: only what is written is returned.", {"update": lambda f, table, beta, keep, old: table}),
    ("The key is divided by its length; use it as it is given.", {"key": lambda k: F.normalize(k, dim=-1)}),
    ("The key is divided by sqrt(d); only the output is.", {"key": lambda k: k / k.size(-1) ** 0.5}),
    ("The key goes through a softmax; use it as it is given.", {"key": lambda k: k.softmax(-1)}),
    ("The key goes through elu + 1; use it as it is given.", {"key": lambda k: F.elu(k) + 1}),
    ("What the state says at the key is divided by sqrt(d); only the output is.", {"say": lambda k, s: read(k, s) / k.size(-1) ** 0.5}),
    ("What the state says is divided by the squared length of the key; the delta rule does not divide.",
     {"say": lambda k, s: read(k, s) / k.square().sum(-1, keepdim=True)}),
    ("The state is summed over its rows without the key.", {"say": lambda k, s: s.sum(-2)}),
    ("The state is averaged over its rows after the product with the key; sum.", {"say": lambda k, s: read(k, s) / k.size(-1)}),
    ("The state is turned: rows belong to the key, columns to the value.", {"say": lambda k, s: (s @ k[..., None])[..., 0]}),
    ("What is written is turned: rows belong to the key, columns to the value.", {"write": lambda k, v: outer(v, k)}),
    ("The output is read from the old state, before anything is done; write first, then read.", {"seen": lambda new, faded, old: old}),
    ("The output is read from the state that has faded, before the write; write first, then read.", {"seen": lambda new, faded, old: faded}),
    ("The output is not divided by sqrt(d).", {"scale": lambda q, v: 1.0}),
    ("The output is divided by d instead of its square root.", {"scale": lambda q, v: 1 / q.size(-1)}),
    ("The output is multiplied by sqrt(d); divide by it.", {"scale": lambda q, v: q.size(-1) ** 0.5}),
    ("The scale uses the width of the value; it is the width of the query.", {"scale": lambda q, v: v.size(-1) ** -0.5}),
    ("The output is read with the key; read with the query.", {"asks": lambda q, k: k}),
    ("The query goes through a softmax; use it as it is given.", {"asks": lambda q, k: q.softmax(-1)}),
    ("The query is divided by its length; use it as it is given.", {"asks": lambda q, k: F.normalize(q, dim=-1)}),
    ("The order is (state, output); return (output, state).", {"answer": lambda o, s: (s, o)}),
    ("Only the state is returned; return (output, state).", {"answer": lambda o, s: s}),
    ("Only the output is returned; return (output, state).", {"answer": lambda o, s: o}),
    ("The state is turned in the result: (batch, heads, d, e).", {"answer": lambda o, s: (o, s.mT)}),
    ("The output has an axis too many; it is (batch, heads, e).", {"answer": lambda o, s: (o[..., None, :], s)}),
    ("The returned state is detached; gradients flow through it.", {"answer": lambda o, s: (o, s.detach())}),
    ("The gradient is stopped at what the state said; it flows through it.", {"say": lambda k, s: read(k, s).detach()}),
    ("beta of head 0 is used for all heads.", {"change": lambda v, said, beta: beta[:, :1] * (v - said)}),
    ("The decay of head 0 is used for all heads.", {"keep": lambda g: g[:, :1].exp().expand_as(g)}),
    ("The decay is averaged over the heads; each has its own.", {"keep": lambda g: g.exp().mean(1, keepdim=True).expand_as(g)}),
))  # fmt: skip
MISTAKES += Mistakes(
    [
        RIGHT.but(
            "The returned state is the old one; return the new one.",
            update=lambda f, table, beta, keep, old: old,
        )
    ]
)


@MISTAKES.add("The state is changed in place; the caller finds it changed.")
def in_place(state, query, key, value, beta, log_decay):
    state *= log_decay.exp()[..., None, None]
    state += outer(key, beta[..., None] * (value - read(key, state)))
    return read(query, state) / query.size(-1) ** 0.5, state


EXERCISE = Exercise(
    name="delta_step", title="One token writes what is new", kind="Implement",
    points=3, difficulty=2, minutes=20, needs="section 'A memory that can correct' of chapter 19",
    judge=Steps(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "There are four lines: fade, ask, write, read. Which of them need the state as it was left by the line before?",
        "What a state says at a key is a sum over its rows: key[..., None, :] @ state. What is written is a table, too: the key as a "
        "column times the difference as a row.",
        "state = state * log_decay.exp()[..., None, None]; said = (key[..., None, :] @ state)[..., 0, :]; then add "
        "key[..., :, None] * (beta[..., None] * (value - said))[..., None, :], and read the new state with query / sqrt(d).",
    ),
)  # fmt: skip
