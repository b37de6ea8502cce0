"""Exercise rotary_step: turn what is new behind caches of different lengths, neighbours in pairs."""

import math

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import detached
from attncourse.grading.noticing import Noticing, apart
from attncourse.grading.observe import Case


def definition(query, key, past, base):
    """One pair of numbers at a time."""
    return tuple(_turned(x, past.tolist(), base) for x in (query, key))


def _turned(x, past, base):
    out, d = torch.zeros_like(x), x.size(-1)
    for b, before in enumerate(past):
        for t in range(x.size(2)):
            for i in range(d // 2):
                angle = torch.tensor((before + t) * base ** (-2 * i / d), dtype=x.dtype)
                first, second = x[b, :, t, 2 * i], x[b, :, t, 2 * i + 1]
                out[b, :, t, 2 * i] = first * angle.cos() - second * angle.sin()
                out[b, :, t, 2 * i + 1] = first * angle.sin() + second * angle.cos()
    return out


CALLS = (  # what is special, b h g n d, base
    (
        "1 new token each, 3 samples, 4 heads, 2 key/value heads, head_dim 6",
        (3, 4, 2, 1, 6),
        10_000.0,
    ),
    ("5 new tokens, 2 samples, base 50", (2, 3, 1, 5, 8), 50.0),
    ("4 new tokens, 4 samples, 4 heads, base 2.5", (4, 4, 4, 4, 4), 2.5),
    ("1 sample, 2 new tokens, 1 pair", (1, 2, 1, 2, 2), 10_000.0),
)


def cases(seed: int) -> list[Case]:
    """Each sample has another past; one of them has none."""
    g, found = seeded(seed), []
    for what, (b, h, g_heads, n, d), base in CALLS:
        query, key = normal(g, (b, h, n, d), (b, g_heads, n, d))
        past = 1 + torch.randperm(40, generator=g)[:b]
        past[1:2] = 0
        found.append(Case(what, (query, key, past, base)))
    return found


def turned(case, expected, seen):
    """Of the first pair that is wrong: was it turned at all, and as if it stood where?"""
    for name, x, right, made in zip(("query", "key"), case.args[:2], expected, seen, strict=True):
        wrong = apart(right, made).unflatten(-1, (-1, 2)).any(-1)
        if not wrong.any():
            continue
        b, h, t, c = wrong.nonzero()[0].tolist()
        what = f"In the first call that is wrong, pair {c} of the {name} of sample {b}, head {h}, new token {t}"
        before, after = (
            torch.view_as_complex(y.double().unflatten(-1, (-1, 2)).contiguous()) for y in (x, made)
        )
        by = after[b, h, t, c] / before[b, h, t, c]
        if abs(abs(by) - 1) > 1e-3:
            return f"{what} changes its length, which no turn does: is it another pair that is turned, or another formula?"
        place, tried = int(case.args[2][b]) + t, torch.arange(-100.0, 201.0).double()
        speed = case.args[3] ** (-2 * c / x.size(-1))
        near = tried[
            (torch.polar(torch.ones(301).double(), tried * speed) - by).abs() < 1e-3
        ].tolist()
        if len(near) == 1:
            return f"{what} is turned as if it stood at {near[0]:.0f}; it stands at {place}."
        return f"{what} is turned by {by.angle():.4g} instead of {place} times {speed:.4g} radians."
    return ""


def at_places(past, n):
    """Positions (b, 1, n, 1), which broadcast over heads and pairs."""
    return (past[:, None] + torch.arange(n))[:, None, :, None]


def turn(x, at, base, power=-2.0, order=lambda a, b: torch.stack([a, b], -1).flatten(-2),
         pairs=lambda x: (x[..., ::2], x[..., 1::2])):  # fmt: skip
    """Neighbours turned by ``at``, with what people change."""
    angles = at * base ** (power * torch.arange(x.size(-1) // 2) / x.size(-1))
    (a, b), c, s = pairs(x), angles.cos(), angles.sin()
    return order(a * c - b * s, a * s + b * c)


def both(places=at_places, **options):
    """Query and key turned alike."""

    def answer(query, key, past, base):
        at = places(past, query.size(2))
        return turn(query, at, base, **options), turn(key, at, base, **options)

    return answer


RIGHT = both()
ACCEPTED = Accepted(strided_slices=RIGHT)


@ACCEPTED.add
def complex_numbers(query, key, past, base):
    d = query.size(-1)
    angles = at_places(past, query.size(2)).double() * base ** (-torch.arange(0, d, 2).double() / d)
    hands = torch.polar(torch.ones_like(angles), angles)
    pairs = (
        torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous()) for x in (query, key)
    )
    return tuple(torch.view_as_real(x * hands).flatten(-2).float() for x in pairs)


@ACCEPTED.add
def rotate_neighbours(query, key, past, base):
    d = query.shape[-1]
    speed = (1.0 / base ** (torch.arange(0, d, 2).float() / d)).repeat_interleave(2)
    angle = (
        torch.stack([torch.arange(p, p + query.shape[2]) for p in past.tolist()])[:, None, :, None]
        * speed
    )

    def one(x):
        crossed = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
        return x * angle.cos() + crossed * angle.sin()

    return [one(query), one(key)]


@ACCEPTED.add
def matrices_sample_by_sample(query, key, past, base):
    def one(x, p):
        rows = []
        for t, vector in enumerate(x.unbind(1)):
            angles = (int(p) + t) * base ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
            c, s = angles.cos(), angles.sin()
            blocks = [
                torch.stack([torch.stack([a, -b]), torch.stack([b, a])])
                for a, b in zip(c, s, strict=True)
            ]
            rows.append(vector @ torch.block_diag(*blocks).T)
        return torch.stack(rows, 1)

    return tuple(
        torch.stack([one(x, p) for x, p in zip(xs, past, strict=True)]) for xs in (query, key)
    )


MISTAKES = Mistakes(Mistake(says, both(places)) for says, places in (
    ("Positions start at 0; after the cached tokens they start at past.", lambda p, n: at_places(0 * p, n)),
    ("All samples get the past of the first; each has its own.", lambda p, n: at_places(p[:1].expand_as(p), n)),
    ("All samples get the longest past, as if they were padded; each has its own.",
     lambda p, n: at_places(p.max().expand_as(p), n)),
    ("All new tokens of a sample get its past; the second stands one further.",
     lambda p, n: p.view(-1, 1, 1, 1).expand(-1, 1, n, 1)),
    ("Positions start one too late; the first new token stands at past.", lambda p, n: at_places(p + 1, n)),
    ("Positions start one too early; the first new token stands at past.", lambda p, n: at_places(p - 1, n)),
    ("Positions start at past + n; the first new token stands at past.", lambda p, n: at_places(p + n, n)),
    ("The positions of the new tokens run backwards.", lambda p, n: at_places(p, n).flip(2)),
    ("Everything is turned the other way: clockwise.", lambda p, n: -at_places(p, n)),
    ("Everything is turned twice.", lambda p, n: 2 * at_places(p, n)),
))  # fmt: skip
MISTAKES += [Mistake(says, both(**options)) for says, options in (
    ("Feature c is paired with c + d / 2; here neighbours, 2 c and 2 c + 1, are a pair.",
     {"pairs": lambda x: x.chunk(2, -1), "order": lambda a, b: torch.cat([a, b], -1)}),
    ("The right pairs are turned, but put side by side in halves; put them back where they were.",
     {"order": lambda a, b: torch.cat([a, b], -1)}),
    ("The two numbers of each pair are exchanged in the result.",
     {"order": lambda a, b: torch.stack([b, a], -1).flatten(-2)}),
    ("Turned the other way in a pair: the sign of the sine is exchanged, or the pair is.",
     {"pairs": lambda x: (x[..., 1::2], x[..., ::2])}),
    ("The exponent is -c / d; it is -2 c / d.", {"power": -1.0}),
    ("The exponent is positive; the later pairs turn slower.", {"power": 2.0}),
    ("The exponent is -4 c / d: it is divided by d / 2, and doubled; it is -2 c / d.", {"power": -4.0}),
    ("All pairs turn at one speed; pair c turns by base ** (-2 c / d).", {"power": 0.0}),
)] + [Mistake(says, answer) for says, answer in (
    ("The key is not turned.", lambda q, k, p, b: (RIGHT(q, k, p, b)[0], k + 0)),
    ("The query is not turned.", lambda q, k, p, b: (q + 0, RIGHT(q, k, p, b)[1])),
    ("Only the key is turned by its place; the query is turned by positions from 0.",
     lambda q, k, p, b: (RIGHT(q, k, 0 * p, b)[0], RIGHT(q, k, p, b)[1])),
    ("Only the query is turned by its place; the key is turned by positions from 0.",
     lambda q, k, p, b: (RIGHT(q, k, p, b)[0], RIGHT(q, k, 0 * p, b)[1])),
    ("The key is turned against the query: both are turned the same way.",
     lambda q, k, p, b: (RIGHT(q, k, p, b)[0], both(lambda p, n: -at_places(p, n))(q, k, p, b)[1])),
    ("Neither is turned.", lambda q, k, p, b: (q + 0, k + 0)),
    ("The base is always 10,000; use the one that is given.", lambda q, k, p, b: RIGHT(q, k, p, 1e4)),
    ("The base is made a whole number; use it as it is given.", lambda q, k, p, b: RIGHT(q, k, p, int(b))),
    ("The angles are turned into degrees; sin and cos take radians.",
     lambda q, k, p, b: both(lambda p, n: 180 / math.pi * at_places(p, n))(q, k, p, b)),
    ("The angle is multiplied by 2 pi; pair 0 turns by 1 radian per position.",
     lambda q, k, p, b: both(lambda p, n: 2 * math.pi * at_places(p, n))(q, k, p, b)),
    ("The key comes first; return (query, key).", lambda q, k, p, b: RIGHT(q, k, p, b)[::-1]),
    ("Only the query is returned; return (query, key).", lambda q, k, p, b: RIGHT(q, k, p, b)[0]),
    ("No gradient flows back: the result is detached.", lambda q, k, p, b: detached(RIGHT(q, k, p, b))),
    ("past is changed; its caller still needs it.", lambda q, k, p, b: (RIGHT(q, k, p, b), p.add_(1))[0]),
    ("The query is turned in place; its caller finds it changed.",
     lambda q, k, p, b: (RIGHT(q, k, p, b), q.data.mul_(2))[0]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="rotary_step",
    judge=Noticing(definition, cases, look=turned),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
