"""Exercise rotate_cached_keys: rotary positions that restart behind the cache, repaired."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import difference
from attncourse.grading.decoding_judge import RULES, SELDOM, Decoding, caches, of_output
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.kv_cache import chunked_decode
from attncourse.grading.exercises.kv_cache.chunked_decode import FAMILIES, cases, join
from attncourse.grading.mistakes import mistakes_of, rules, scales
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone
from attncourse.grading.compare import same


def definition(query, key, value, past_key, past_value):
    """Queries and new keys turn by past, past + 1, ...; the cached keys are turned already."""
    places = [past_key.size(2) + i for i in range(query.size(2))]
    query, key = spec.rotary(query, places), spec.rotary(key, places)
    return chunked_decode.definition(query, key, value, past_key, past_value)


def opposite(query, key):
    """Make the score of a token with itself below -1e8, and above 1e8, in turn."""
    key[..., 0] = 3.0
    query.copy_(4e7 * key * (-1.0) ** torch.arange(1, 1 + key.size(2))[:, None])


def far_below_zero(query, key):
    """Make the score of key j about -20000 - 20 j (head_dim 16): only the slowest pair turns, which hardly does."""
    query.zero_()[..., 7] = -400.0
    key.zero_()[..., 7] = 200.0 + 0.2 * torch.arange(key.size(2))


CALLS = (  # what is special, b h n p d e, how loud
    ("4 new tokens behind 5, 2 samples, 3 heads, head_dim 6, values 8 wide", (2, 3, 4, 5, 6, 8), 1),
    ("nothing cached, 4 tokens", (2, 1, 4, 0, 8, 6), 2),
    ("2 new tokens behind 3", (1, 2, 2, 3, 10, 4), 1),
    ("1 new token, nothing cached", (2, 3, 1, 0, 4, 2), 1),
    ("1 new token behind 30", (1, 1, 1, 30, 8, 4), 2),
    ("large scores", (1, 2, 4, 3, 8, 6), 144),
    ("scores far below zero", (1, 2, 5, 0, 16, 6), far_below_zero),
    ("scores of both signs, very large", (1, 2, 5, 0, 4, 6), opposite),
)
start = torch.add  # token i of a chunk stands behind the past


def rotary(x, positions):
    frequency = 1.0 / 10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    angle = torch.outer(positions.float(), frequency).repeat(1, 2)
    return x * angle.cos() + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * angle.sin()


def complex_numbers(x, positions):
    angles = positions[:, None] * 1e4 ** (-torch.arange(0, x.size(-1), 2).double() / x.size(-1))
    pairs = torch.complex(*x.double().chunk(2, dim=-1)) * torch.exp(1j * angles)
    return torch.cat([pairs.real, pairs.imag], dim=-1).float()


def turned(query_at=start, key_at=start, past_at=lambda j: 0 * j, turn=rotary):
    """What is given, turned by these positions; ``rest`` has the new keys unturned."""

    def given(query, key, value, past_key, past_value):
        i, p = torch.arange(query.size(2)), past_key.size(2)
        new, past = turn(key, key_at(i, p)), rotary(past_key, past_at(torch.arange(p)))
        query, value = turn(query, query_at(i, p)), join(past_value, value)
        return Given(query, join(past, new), value, p, rest=join(past_key, key))

    return given


def positions_read(case: Case, expected: tuple, seen: tuple) -> str:
    """By which positions the tokens are turned, as far as the results of the first wrong call tell."""
    query, key, _, past_key, _ = case.args
    p, (output, keys, values) = past_key.size(2), expected
    if difference(values, seen[2]):
        return "The returned values are wrong; they are the cached and the new ones as they came."
    found = enumerate(seen[1].unbind(2))
    for j, wrong in ((j, x) for j, x in found if difference(keys[:, :, j], x)):
        at = turned_to(past_key[:, :, j] if j < p else key[:, :, j - p], lambda x: x, wrong)
        if j < p:
            again = "" if at is None else f": it is turned again, by {at}"
            return f"The returned cached key {j} is not the one that came in{again}."
        if at is None:
            return f"The returned key of new token {j - p} is not its key turned by any whole position, as rotary(key, positions) turns it."
        return (
            f"With {p} cached tokens, new key {j - p} is turned by position {at}; its own is {j}."
        )
    if "scores" in case.label:
        return (
            "Scores of ordinary size give what they should; with larger ones the output is wrong."
        )
    for i, wrong in enumerate(seen[0].unbind(2)):

        def reading(x, m=p + i + 1):
            scores = x.double() @ keys[:, :, :m].mT * x.size(-1) ** -0.5
            return scores.softmax(-1) @ values[:, :, :m].double()

        at = (
            turned_to(query[:, :, i], reading, wrong)
            if difference(output[:, :, i], wrong)
            else None
        )
        if at is not None:
            return f"Keys and values are right. With {p} cached tokens, query {i} is turned by position {at}; its own is {p + i}."
    turned = spec.rotary(query, [p + i for i in range(query.size(2))])
    return "Keys and values are right, the output is not. " + of_output(turned, expected, seen[0])


def turned_to(x: torch.Tensor, reading, wrong: torch.Tensor) -> int | None:
    """The position that makes this of one token, if it is one of -32 to 63."""
    at = torch.arange(-32, 64)
    made = reading(rotary(x[:, :, None].expand(-1, -1, len(at), -1), at))
    return next(
        (int(k) for k, y in zip(at, made.unbind(2), strict=True) if same(y, wrong, 1e-4)), None
    )


RIGHT = Recipe(turned(), answer=lambda output, weights, scores, x: (output, x.key, x.value))
ACCEPTED = Accepted(
    rotate_half=RIGHT,
    complex_numbers=Recipe(turned(turn=complex_numbers), answer=RIGHT.answer),
    start_at_the_past=Recipe(turned(turn=spec.rotary), answer=RIGHT.answer),
)


@ACCEPTED.add
def last_of_all_positions(query, key, value, past_key, past_value):
    n, m = query.size(2), query.size(2) + past_key.size(2)
    at = torch.arange(m)[-n:]
    keys, values = join(past_key, rotary(key, at)), join(past_value, value)
    mask = torch.arange(m) <= at[:, None]
    return F.scaled_dot_product_attention(rotary(query, at), keys, values, mask), keys, values


@ACCEPTED.add
def token_by_token(query, key, value, keys, values):
    rows = []
    for one in zip(*(x.split(1, 2) for x in (query, key, value)), strict=True):
        row, keys, values = RIGHT(*one, keys, values)
        rows.append(row)
    return [torch.cat(rows, dim=2), keys, values]


# attend and rotary are given and right: of what they do, only the scale and the causal mask are tried beside wrong positions.
PAIRED = scales, rules, caches
MISTAKES = Mistakes(
    mistakes_of(RIGHT, *PAIRED, without=("bottom right",))
    + alone(mistakes_of(RIGHT, *(f for f in FAMILIES if f not in PAIRED), without=("mask unused",)))
)
MISTAKES += [RIGHT.but(says, given=turned(query_at, key_at)) for says, query_at, key_at in (
    ("The new keys still start at 0; they stand behind the cache, too.", start, lambda i, p: i),
    ("The queries still start at 0; they stand behind the cache, too.", lambda i, p: i, start),
    ("The queries are not turned; queries and new keys are.", lambda i, p: 0 * i, start),
    ("The new keys are not turned; queries and new keys are.", start, lambda i, p: 0 * i),
    ("The queries start behind the new tokens, not behind the past.", lambda i, p: i + p + len(i), start),
)] + [RIGHT.but(says, given=turned(at, at)) for says, at in (
    ("Positions still start at 0 behind the cache, as found: add past_key.size(2).", lambda i, p: i),
    ("Neither queries nor new keys are turned.", lambda i, p: 0 * i),
    ("Positions start one too late; they start at past_key.size(2).", lambda i, p: i + p + 1),
    ("Positions start one too early; they start at past_key.size(2).", lambda i, p: i + p - 1),
    ("Positions start behind the new tokens; they start at past_key.size(2).", lambda i, p: i + p + len(i)),
    ("Positions start at the number of new tokens, not of cached ones.", lambda i, p: i + len(i)),
    ("All new tokens get the position of the first; each has its own.", lambda i, p: 0 * i + p),
    ("All new tokens get the position of the last; each has its own.", lambda i, p: 0 * i + p + len(i) - 1),
    ("The positions of the new tokens run backwards.", lambda i, p: p + i.flip(0)),
    ("The positions are multiplied by the length of the cache; add it.", lambda i, p: i * p),
    ("Queries and keys are turned in the other direction than the cached keys.", lambda i, p: -i - p),
)] + [RIGHT.but(says, **steps) for says, steps in (
    ("The cached keys are turned again; they came in turned.", {"given": turned(past_at=lambda j: j)}),
    ("All keys are turned after the join and the unturned new ones are returned, so the past turns again.",
     {"given": turned(past_at=lambda j: j), "answer": lambda o, w, s, x: (o, x.rest, x.value)}),
    ("New keys are returned unturned; cache them turned.", {"answer": lambda o, w, s, x: (o, x.rest, x.value)}),
    ("The values are turned, too; positions belong into queries and keys only.", {"given": lambda q, k, v, *past:
     turned()(q, k, rotary(v, start(torch.arange(v.size(2)), past[0].size(2))), *past)}),
)]  # fmt: skip

MISTAKES += [Mistake(says, replace(RIGHT, **steps)) for says, steps in SELDOM]
MISTAKES += [Mistake(says, replace(RIGHT, rule=rule)) for says, rule in RULES]

EXERCISE = Exercise(
    name="rotate_cached_keys",
    answer="step",
    judge=Decoding(definition, lambda seed: cases(seed, CALLS), look=positions_read),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
