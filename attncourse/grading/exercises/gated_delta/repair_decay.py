"""Exercise repair_decay: a gated chunk whose exponents fade the wrong tokens, repaired."""

import math

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.gated_delta._chunks import Chunk, Chunks
from attncourse.grading.exercises.gated_delta._exponents import EXPONENTS, read_early, written_early
from attncourse.grading.exercises.gated_delta._steps import behind
from attncourse.grading.exercises.gated_delta._tables import between, later
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.slips import alone

CALLS = (  # what is special, b h n d e, the range of the log-decays, gradients
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
    for what, (b, h, n, d, e), (low, high), gradients in CALLS:
        shapes = (b, h, n, d), (b, h, n, d), (b, h, n, e), (b, h, d, e)
        query, key, value, state = normal(g, *shapes)
        logs = low + (high - low) * torch.rand(b, h, n, generator=g)
        state = torch.zeros_like(state) if "empty" in what else state
        if "large" in what:
            state *= 1e25  # exp(-50) of it would still be seen
            value[:, :, 0 if state.any() else -1] *= 1e25
        found.append(Case(what, (query, key, value, logs, state), gradients=gradients))
    return found


def definition(query, key, value, log_decay, state):
    """The loops of the course, token by token behind the state."""
    return behind(state, query, key, value, log_decay)


RIGHT = Chunk()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def token_by_token(query, key, value, log_decay, state):
    outputs = []
    for q, k, v, g in zip(*(x.unbind(2) for x in (query, key, value, log_decay)), strict=True):
        state = g.exp()[..., None, None] * state + k.unsqueeze(-1) @ v.unsqueeze(-2)
        outputs.append((q.unsqueeze(-2) @ state).squeeze(-2) / math.sqrt(q.size(-1)))
    return torch.stack(outputs, 2), state


@ACCEPTED.add
def found_code_repaired(query, key, value, log_decay, state):
    n, total = query.size(2), log_decay.cumsum(dim=-1)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(later, -math.inf).exp()
    query = query / math.sqrt(query.size(-1))
    output = (query * total[..., None].exp()) @ state + (query @ key.mT * decay) @ value
    left = decay[..., -1, :]  # the last row of the table: what is left of each token
    return output, total[..., -1, None, None].exp() * state + (key * left[..., None]).mT @ value


@ACCEPTED.add
def sums_from_the_end(query, key, value, log_decay, state):
    """What comes behind each token is summed by itself."""
    rest = log_decay.flip(-1).cumsum(-1).flip(-1) - log_decay
    before = torch.cumsum(log_decay, 2)
    gaps = torch.where(torch.ones(2 * (query.shape[2],)).tril() > 0, rest[:, :, None] - rest[..., None], -1e9)  # fmt: skip
    weights = torch.einsum("bhid,bhjd->bhij", query, key) * gaps.exp() * query.shape[-1] ** -0.5
    output = weights @ value + before.exp()[..., None] * (query @ state) * query.shape[-1] ** -0.5
    keep = log_decay.sum(-1)[..., None, None].exp()
    return [output, keep * state + torch.einsum("bhjd,bhje,bhj->bhde", key, value, rest.exp())]


@ACCEPTED.add
def the_state_as_a_token_in_front(query, key, value, log_decay, state):
    """Rows of the state are tokens: their keys are the axes, and they do not fade before the first real one."""
    (b, h, n, d), q = query.shape, query.double() / query.size(-1) ** 0.5
    keys = torch.cat([torch.eye(d).expand(b, h, d, d), key], 2).double()
    values = torch.cat([state, value], 2).double()
    total = torch.cat([log_decay.new_zeros(b, h, d), log_decay], 2).double().cumsum(-1)
    bias = total[:, :, d:, None] - total[:, :, None]
    bias = bias.masked_fill(torch.ones(n, n + d).triu(d + 1).bool(), -torch.inf)
    left = (total[..., -1:] - total).exp()
    return (q @ keys.mT * bias.exp()) @ values, (keys * left[..., None]).mT @ values


MISTAKES = Mistakes([RIGHT.but(
    "Nothing is repaired: tokens read the old state before they have faded it, and the new state holds tokens as faded by those up to them.",
    reads=read_early, writes=written_early)])  # fmt: skip
MISTAKES += [
    RIGHT.but(f"{subject} {says}.", **{step: change})
    for step, (subject, exponents) in EXPONENTS.items()
    for says, change in exponents
]
MISTAKES += [RIGHT.but(says, **steps) for says, steps in (
    ("The output is not divided by sqrt(d); this was right in the code as found.", {"scale": lambda q, v: 1.0}),
    ("The scale uses the width of the value; this was right in the code as found.", {"scale": lambda q, v: v.size(-1) ** -0.5}),
    ("The output is divided by d instead of its square root; this was right in the code as found.", {"scale": lambda q, v: 1 / q.size(-1)}),
    ("A token reads the one behind it; later ones are hidden from it.", {"later": lambda n: torch.ones(n, n, dtype=torch.bool).triu(2)}),
    ("No token reads itself; only later ones are hidden.", {"later": lambda n: torch.ones(n, n, dtype=torch.bool).triu(0)}),
    ("The old state is not used.", {"old": torch.zeros_like}),
    ("The old state is detached; gradients flow to it.", {"old": torch.detach}),
    ("The running sums are those of the heads; they run over the tokens, dim=-1.", {"total": lambda g: g.cumsum(1)}),
    ("log_decay is used where its running sum should be.", {"total": lambda g: g}),
    ("The running sums run from the end.", {"total": lambda g: g.flip(-1).cumsum(-1).flip(-1)}),
    ("The decays of head 0 are used for all heads.", {"total": lambda g: g[:, :1].cumsum(-1).expand_as(g)}),
    ("2 to the power of the sums; the logarithms are natural.", {"factor": lambda x: 2.0**x}),
    ("The new state is divided by sqrt(d); only the output is.", {"answer": lambda o, s: (o, s / s.size(-2) ** 0.5)}),
    ("All tokens fade by the mean of the log-decays; each has its own.", {"total": lambda g: g.mean(-1, keepdim=True).expand_as(g).cumsum(-1)}),
    ("The order is (state, output); return (output, state).", {"answer": lambda o, s: (s, o)}),
    ("Only the output is returned; return (output, state).", {"answer": lambda o, s: o}),
    ("The state is turned: rows belong to the key.", {"answer": lambda o, s: (o, s.mT)}),
    ("The returned state is detached; gradients flow through it.", {"answer": lambda o, s: (o, s.detach())}),
)]  # fmt: skip
MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in (
    *(("Later tokens count exp of a number such as -10, which is not 0; they were hidden right in the code as found.",
       {"table": lambda t, g, x=x: between(t, g).where(~later(g.size(-1)), x), "later": lambda n: later(n) & False})
      for x in (-1.0, -5.0, -10.0, -20.0, -30.0, -50.0)),
    *(("The log-decays are clamped, so that strong ones fade less than they should.", {"total": lambda g, x=x: g.clamp(min=x).cumsum(-1)})
      for x in (-0.5, -1.0, -2.0, -5.0, -10.0, -20.0, -30.0, -50.0)),
))  # fmt: skip


@MISTAKES.add("The old state is returned; return the new one.")
def the_old_state(query, key, value, log_decay, state):
    return RIGHT(query, key, value, log_decay, state)[0], state


@MISTAKES.add("The state is changed in place; the caller finds it changed.")
def in_place(query, key, value, log_decay, state):
    output, new = RIGHT(query, key, value, log_decay, state)
    return output, state.copy_(new)


@MISTAKES.add(
    "The output is read from the new state, which holds later tokens; read the old one and the table."
)
def reads_the_new_state(query, key, value, log_decay, state):
    _, new = RIGHT(query, key, value, log_decay, state)
    return query @ new / math.sqrt(query.size(-1)), new


@MISTAKES.add(
    "exp of the sums times exp of minus the sums: for strong decays this is 0 times infinity. Subtract, then take exp."
)
def factored(query, key, value, log_decay, state):
    total = log_decay.cumsum(-1)[..., None]
    query, grown = query * total.exp() / math.sqrt(query.size(-1)), key * (-total).exp()
    end = total[:, :, -1:].exp()
    return query @ state + (query @ grown.mT).tril() @ value, end * (state + grown.mT @ value)


EXERCISE = Exercise(
    name="repair_decay",
    answer="gated_chunk",
    judge=Chunks(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
