"""Exercise rotate_cached_keys: rotary positions that restart behind the cache, repaired."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(query, key, value, past_key, past_value):
    """Queries and new keys turn by past, past + 1, ...; the cached keys are turned already."""
    n, past = query.size(2), past_key.size(2)
    places = list(range(past, past + n))
    query, key = spec.rotary(query, places), spec.rotary(key, places)
    keys, values = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    visible = spec.causal(n, past + n, offset=past)
    return spec.scaled_dot_product_attention(query, keys, values, visible)[0], keys, values


def cases(seed: int) -> list[Case]:
    """One token behind many, chunks, nothing cached; cached keys are turned as they should be."""
    g = torch.Generator().manual_seed(seed)

    def call(b, h, n, past, d, e):
        q, k, old = (torch.randn(b, h, m, d, generator=g) for m in (n, n, past))
        v, old_v = (torch.randn(b, h, m, e, generator=g) for m in (n, past))
        return q, k, v, rotary(old, torch.arange(past)), old_v

    return [
        Case("1 new token behind 5, 2 samples, 3 heads", call(2, 3, 1, 5, 4, 7)),
        Case("3 new tokens behind 4", call(1, 2, 3, 4, 6, 5)),
        Case("5 new tokens behind 2, keys of 2 numbers", call(1, 1, 5, 2, 2, 3)),
        Case("as many new tokens as cached ones", call(1, 2, 3, 3, 4, 6)),
        Case("nothing cached, 4 tokens", call(2, 1, 4, 0, 8, 3)),
        Case("1 new token behind 30", call(1, 1, 1, 30, 8, 5), gradients=False),
    ]


def rotary(x, positions, sign=1.0):
    """As the notebook gives it."""
    d = x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d) * sign
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def attend(query, keys, values):
    n, m = query.size(2), keys.size(2)
    scores = query @ keys.mT / math.sqrt(query.size(-1))
    visible = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1) @ values


def join(past, new):
    return torch.cat([past, new], dim=2)


def places(query, past_key):
    past = past_key.size(2)
    return torch.arange(past, past + query.size(2))


def finish(query, key, value, past_key, past_value):
    keys, values = join(past_key, key), join(past_value, value)
    return attend(query, keys, values), keys, values


ACCEPTED = Accepted()


@ACCEPTED.add
def start_at_the_past(query, key, value, past_key, past_value):
    at = places(query, past_key)
    return finish(rotary(query, at), rotary(key, at), value, past_key, past_value)


@ACCEPTED.add
def last_of_all_positions(query, key, value, past_key, past_value):
    keys = join(past_key, key)
    at = torch.arange(keys.size(2))[-query.size(2) :]
    keys = join(past_key, rotary(key, at))
    values = join(past_value, value)
    n, m = query.size(2), keys.size(2)
    mask = torch.arange(m) <= torch.arange(m - n, m)[:, None]
    return F.scaled_dot_product_attention(rotary(query, at), keys, values, mask), keys, values


@ACCEPTED.add
def complex_numbers(query, key, value, past_key, past_value):
    def turn(x):
        d = x.size(-1)
        pairs = torch.complex(*x.double().chunk(2, dim=-1))
        angles = places(query, past_key)[:, None] * 1e4 ** (-torch.arange(0, d, 2).double() / d)
        pairs = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([pairs.real, pairs.imag], dim=-1).float()

    return finish(turn(query), turn(key), value, past_key, past_value)


@ACCEPTED.add
def token_by_token(query, key, value, past_key, past_value):
    rows = []
    for i in range(query.size(2)):
        at = torch.tensor([past_key.size(2)])
        one = [x[:, :, i : i + 1] for x in (query, key, value)]
        q, k = rotary(one[0], at), rotary(one[1], at)
        row, past_key, past_value = finish(q, k, one[2], past_key, past_value)
        rows.append(row)
    return torch.cat(rows, dim=2), past_key, past_value


@ACCEPTED.add
def rotate_half(query, key, value, past_key, past_value):
    d = query.shape[-1]
    frequency = 1.0 / 10000 ** (torch.arange(0, d, 2).float() / d)
    angle = torch.outer(places(query, past_key).float(), frequency).repeat(1, 2)

    def turn(x):
        half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
        return x * angle.cos() + half * angle.sin()

    return list(finish(turn(query), turn(key), value, past_key, past_value))


MISTAKES = Mistakes()


def turned(says, query_at, key_at):
    """Register the answer that turns queries and new keys by these positions; ``None`` turns nothing."""

    @MISTAKES.add(says)
    def wrong(query, key, value, past_key, past_value):
        new = torch.arange(query.size(2))
        q_at, k_at = query_at(new, past_key.size(2)), key_at(new, past_key.size(2))
        q = query if q_at is None else rotary(query, q_at)
        k = key if k_at is None else rotary(key, k_at)
        return finish(q, k, value, past_key, past_value)


def right(i, past):
    return i + past


def restarted(i, past):
    return i


def nothing(i, past):
    return None


turned(
    "Positions still start at 0 behind the cache, as in the code as found: add past_key.size(2).",
    restarted,
    restarted,
)
turned("The new keys still start at 0; they stand behind the cache, too.", right, restarted)
turned("The queries still start at 0; they stand behind the cache, too.", restarted, right)
turned(
    "The queries start behind the new tokens, at m; query and key of a token stand at one position.",
    lambda i, past: i + past + len(i),
    right,
)
turned("The new keys are not turned.", right, nothing)
turned("The queries are not turned.", nothing, right)
turned("Neither queries nor new keys are turned.", nothing, nothing)
for says, at in (
    ("Positions start one too late: the first new token stands at past_key.size(2).",
     lambda i, past: i + past + 1),
    ("Positions start one too early: the first new token stands at past_key.size(2).",
     lambda i, past: i + past - 1),
    ("Positions start behind the new tokens, at m; they start at past_key.size(2).",
     lambda i, past: i + past + len(i)),
    ("Positions start at the number of new tokens; they start at past_key.size(2).",
     lambda i, past: i + len(i)),
    ("All new tokens get the position of the first; each has its own.",
     lambda i, past: i * 0 + past),
    ("All new tokens get the position of the last; each has its own.",
     lambda i, past: i * 0 + past + len(i) - 1),
    ("The positions of the new tokens run backwards.",
     lambda i, past: past + i.flip(0)),
    ("The positions are multiplied by the length of the cache; add it.",
     lambda i, past: i * past),
):  # fmt: skip
    turned(says, at, at)


@MISTAKES.add("The cached keys are turned again; they were turned when they came in.")
def turned_twice(query, key, value, past_key, past_value):
    at, past = places(query, past_key), torch.arange(past_key.size(2))
    q, k = rotary(query, at), rotary(key, at)
    return finish(q, k, value, rotary(past_key, past), past_value)


@MISTAKES.add(
    "All keys are turned after the join and the unturned new ones are returned, so the past turns again."
)
def all_turned_at_the_end(query, key, value, past_key, past_value):
    keys, values = join(past_key, key), join(past_value, value)
    q = rotary(query, places(query, past_key))
    return attend(q, rotary(keys, torch.arange(keys.size(2))), values), keys, values


@MISTAKES.add("The output is right, but the new keys are returned unturned; cache them turned.")
def unturned_returned(query, key, value, past_key, past_value):
    output, _, values = start_at_the_past(query, key, value, past_key, past_value)
    return output, join(past_key, key), values


@MISTAKES.add("The values are turned, too; positions belong into queries and keys only.")
def values_turned(query, key, value, past_key, past_value):
    at = places(query, past_key)
    even = value[..., : value.size(-1) // 2 * 2]
    value = torch.cat([rotary(even, at), value[..., even.size(-1) :]], dim=-1)
    return finish(rotary(query, at), rotary(key, at), value, past_key, past_value)


@MISTAKES.add("Queries and keys are turned in the other direction than the cached keys.")
def other_direction(query, key, value, past_key, past_value):
    at = places(query, past_key)
    return finish(rotary(query, at, -1.0), rotary(key, at, -1.0), value, past_key, past_value)


@MISTAKES.add("Only the output is returned; return (output, keys, values) as before.")
def output_only(*args):
    return start_at_the_past(*args)[0]


@MISTAKES.add("Only the new keys and values are returned, so the cache does not grow.")
def new_only(query, key, value, past_key, past_value):
    at = places(query, past_key)
    output = start_at_the_past(query, key, value, past_key, past_value)[0]
    return output, rotary(key, at), value


@MISTAKES.add("The cached keys are detached; gradients flowed to them before.")
def detached(query, key, value, past_key, past_value):
    return start_at_the_past(query, key, value, past_key.detach(), past_value)


EXERCISE = Exercise(
    name="rotate_cached_keys",
    answer="step",
    title="Positions that restart",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'Positions with a cache' of chapter 4",
    judge=Calls(definition, cases),
    hints=(
        "Which position does the first new token have when 5 tokens are cached?",
        "The cached keys were turned by 0, 1, ..., past - 1. They stay as they are.",
        "past = past_key.size(2); positions = torch.arange(past, past + query.size(2)), for query and key.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
