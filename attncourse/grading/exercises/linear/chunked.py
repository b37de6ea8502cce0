"""Exercise chunked: causal linear attention in chunks, which makes neither a table of all pairs nor a state for every token."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.linear._chunks import LOOPED, RIGHT, cases, shared
from attncourse.grading.exercises.linear._summed import elu_plus_one, with_one
from attncourse.grading.exercises.linear._told import Reads
from attncourse.grading.inputs import normal
from attncourse.grading.memory_judge import Budget, MemoryLimited

TOKENS = 32  # and twice as many


def definition(query, key, value, size):
    """The loops of the course, pair by pair; the size of a chunk changes nothing."""
    return spec.linear_attention(query, key, value, is_causal=True)[0]


def measured(n, width, size):
    """One head of n tokens."""
    return *normal(torch.Generator().manual_seed(7), *[(1, 1, n, width)] * 3), size


def lean(answer) -> bool | str:
    """True when there is no table of all pairs and no state for every token, at once or one after the other."""
    narrow = [as_answer(answer).allocations(*measured(n, 4, 16)) for n in (TOKENS, 2 * TOKENS)]
    wide, states = as_answer(answer).allocations(*measured(64, 48, 32)), 64 * 48 * 48
    if wide.new >= states:
        return Described(f"a state for every token: {wide.how}")
    if narrow[1].new >= 4 * TOKENS * TOKENS:
        return Described(f"all pairs at once: {narrow[1].how}")
    if narrow[1].total > 2.25 * narrow[0].total:
        one, two = (f"{x.total:,} numbers for {k * TOKENS} tokens" for k, x in enumerate(narrow, 1))
        return Described(f"all pairs, part by part: {one}, {two}")
    if wide.total > states:
        return Described(f"token by token: {wide.total:,} numbers in all for 64 tokens")
    return True


ACCEPTED = Accepted()


@ACCEPTED.add
def a_loop_over_chunks(query, key, value, size):
    rows = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state, outputs = 0, []
    for q, k, v in zip(*(x.split(size, dim=2) for x in rows), strict=True):
        read = (q @ k.mT).tril() @ v
        read = read + q @ state if outputs else read
        outputs.append(read[..., :-1] / read[..., -1:])
        state = state + k.mT @ v
    return torch.cat(outputs, dim=2)


@ACCEPTED.add
def slices_and_two_sums(query, key, value, size):
    b, h, n, d = query.shape
    state, total = torch.zeros(b, h, d, value.shape[-1]), torch.zeros(b, h, d, 1)
    parts = []
    for a in range(0, n, size):
        q, k = (F.elu(x[:, :, a : a + size]) + 1 for x in (query, key))
        v = value[:, :, a : a + size]
        w = torch.tril(torch.einsum("bhid,bhjd->bhij", q, k))
        over = w.sum(-1, keepdim=True) + q @ total
        parts.append((w @ v + torch.einsum("bhid,bhde->bhie", q, state)) / over)
        state, total = state + k.transpose(-1, -2) @ v, total + k.sum(2)[..., None]
    return torch.cat(parts, -2)


@ACCEPTED.add
def all_chunks_at_once(query, key, value, size):
    n = query.size(2)
    size = min(size, n)
    pad = (0, 0, 0, -n % size)
    q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
    q, k, v = (F.pad(x, pad).unflatten(2, (-1, size)) for x in (q, k, v))
    new = k.mT @ v
    read = q @ (new.cumsum(2) - new) + (q @ k.mT).tril() @ v
    read = read.flatten(2, 3)[:, :, :n]
    return read[..., :-1] / read[..., -1:]


@ACCEPTED.add
def states_first(query, key, value, size):
    q, k, v = (x.double() for x in (elu_plus_one(query), elu_plus_one(key), value))
    queries, keys, values = (torch.split(x, size, 2) for x in (q, k, v))
    states, totals = (
        [torch.zeros_like(k[:, :, :1].mT @ v[:, :, :1])],
        [torch.zeros_like(k[:, :, 0])],
    )
    for k, v in zip(keys, values, strict=True):
        states.append(states[-1] + k.mT @ v)
        totals.append(totals[-1] + k.sum(2))
    found = []
    for at, q in enumerate(queries):
        hidden = torch.ones(q.size(2), q.size(2)).triu(1) == 1
        w = (q @ keys[at].mT).masked_fill(hidden, 0)
        below = w.sum(3) + (q * totals[at][:, :, None]).sum(3)
        found.append((q @ states[at] + w @ values[at]) / below[..., None])
    return torch.cat(found, 2)


@ACCEPTED.add
def written_into_place(query, key, value, size):
    q, k, out = elu_plus_one(query), elu_plus_one(key), torch.empty_like(value)
    state, total = 0.0, 0.0
    for first in range(0, key.size(2), size):
        at = slice(first, first + size)
        w = torch.tril(q[:, :, at] @ k[:, :, at].mT)
        up, down = w @ value[:, :, at], w.sum(-1)
        if first:
            up, down = up + q[:, :, at] @ state, down + (q[:, :, at] * total[:, :, None]).sum(-1)
        out[:, :, at] = up / down[..., None]
        state = state + k[:, :, at].mT @ value[:, :, at]
        total = total + k[:, :, at].sum(2)
    return out


def a_state_for_every_token(query, key, value, size):
    """A running sum of all outer products."""
    q, k = elu_plus_one(query), elu_plus_one(key)
    states = (k[..., None] * value[..., None, :]).cumsum(2)
    return (q[..., None, :] @ states)[..., 0, :] / (q * k.cumsum(2)).sum(-1, keepdim=True)


def all_earlier_keys(query, key, value, size):
    """Every chunk meets all keys so far."""
    q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
    rows = []
    for a in range(0, q.size(2), size):
        b = min(a + size, q.size(2))
        rows.append((q[:, :, a:b] @ k[:, :, :b].mT).tril(a) @ v[:, :, :b])
    read = torch.cat(rows, 2)
    return read[..., :-1] / read[..., -1:]


def token_by_token(query, key, value, size):
    """Chunks of one token, whatever size is."""
    return ACCEPTED["a_loop_over_chunks"](query, key, value, 1)


MISTAKES = Mistakes([
    Mistake("The results are right, but a table of n x n numbers is made on the way; let each chunk meet the state, and itself.", RIGHT),
    Mistake("The results are right, but a state is kept for every token, n x d x e numbers at once; keep one, and go from chunk to chunk.",
            a_state_for_every_token),
    Mistake("The results are right, but each chunk meets all keys so far, so that twice as many tokens take four times as much; what came "
            "before is in the state.", all_earlier_keys),
    Mistake("The results are right, but a state is written for each token, one after the other; take the tokens of a chunk together.",
            token_by_token),
    *(Mistake(says, answer) for says, answer in LOOPED),
    *shared(RIGHT),
])  # fmt: skip

EXERCISE = Exercise(
    name="chunked",
    answer="linear_in_chunks",
    judge=MemoryLimited(
        Reads(definition, cases),
        "twice as many tokens take twice as much",
        lean,
        # All pairs would be 256 MiB.
        Budget(
            lambda g: (*normal(g, *[(1, 1, 2**13, 48)] * 3), 64), ACCEPTED["a_loop_over_chunks"]
        ),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
