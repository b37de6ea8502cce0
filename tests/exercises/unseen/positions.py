"""Positions: answers that its exercises do not list."""

import math

import torch

from unseen import right, wrong


def clocks(positions, width, base, angle=lambda p, i, d, base: p * base ** (-2 * i / d), join=None):
    """The exercise sinusoid, with other angles or put together in another way."""
    angles = angle(positions[:, None], torch.arange(width // 2), width, base)
    return (join or (lambda a: torch.cat([a.sin(), a.cos()], -1)))(angles)


right("sinusoid", clocks)
for words, changed in (
    ("the speeds of the clocks, the next step, are not", {"angle": lambda p, i, d, base: p * int(base) ** (-2 * i / d)}),
    ("twice too large", {"angle": lambda p, i, d, base: p * base ** (-2 * i / (d // 2))}),
    ("The exponents of pair 0 are used for all pairs", {"angle": lambda p, i, d, base: p * base ** -(2 * i // d).float()}),
    ("the speeds of the clocks, the next step, are not", {"angle": lambda p, i, d, base: p * torch.exp(-2 * i / d * math.log2(base))}),
    ("the speeds of the clocks, the next step, are not", {"angle": lambda p, i, d, base: p * torch.exp(-2 * i / d * math.log10(base))}),
    ("the speeds of the clocks, the next step, are not", {"angle": lambda p, i, d, base: p * torch.exp(-2 * i / d)}),
    ("the angles, the next step, are not", {"angle": lambda p, i, d, base: (p - p[0]) * base ** (-2 * i / d)}),
    ("the angles, the next step, are not", {"angle": lambda p, i, d, base: p / p.max().clamp(min=1) * base ** (-2 * i / d)}),
    ("the angles, the next step, are not", {"angle": lambda p, i, d, base: p ** base ** (-2 * i / d)}),
    ("beyond the end of its axis", {"angle": lambda p, i, d, base: (torch.arange(32)[:, None] * base ** (-2 * i / d))[p[:, 0]]}),
    ("The sines are right, the cosines are not", {"join": lambda a: torch.cat([a.sin(), a.tan()], -1)}),
    ("The sign of the cosines is turned", {"join": lambda a: torch.cat([a.sin(), -a.cos()], -1)}),
    ("look at what is made of them", {"join": lambda a: torch.cat([a.sin(), a.cos()], -1) / a.size(1) ** 0.5}),
    ("the opposite order of rows", {"join": lambda a: torch.cat([a.sin(), a.cos()], -1).flip(0)}),
    ("right to about three digits", {"join": lambda a: torch.cat([a.sin(), a.cos()], -1).mul(1000).round() / 1000}),
    ("axes of size 1 are missing", {"join": lambda a: torch.cat([a.sin(), a.cos()], -1).squeeze()}),
    ("this is a list", {"join": lambda a: torch.cat([a.sin(), a.cos()], -1).tolist()}),
):  # fmt: skip
    wrong("sinusoid", words, lambda p, d, base, changed=changed: clocks(p, d, base, **changed))


def bucket(distance, buckets, furthest, far=lambda x, e, top: (x / e).log() / math.log(top / e), near=torch.lt,
           span=lambda half, e: half - e, back=torch.abs, after=lambda x, half: half * (x < 0)):  # fmt: skip
    """The exercise t5_bucket with one step changed."""
    half = buckets // 2
    e, x = half // 2, back(distance).double()
    large = e + span(half, e) * far(x.clamp(min=e), e, furthest)
    return torch.where(near(x, e), x, large.floor().clamp(max=half - 1)).long() + after(
        distance, half
    )


right("t5_bucket", bucket)
right(
    "t5_bucket", lambda *given: bucket(*given, near=torch.le)
)  # e itself is bucket e by either rule
FAR = "Only buckets of distances from e to furthest are wrong"
for words, changed in (
    ("Only buckets of distances of e and further are wrong, all of them too small", {"back": lambda x: x.abs().clamp(max=99)}),
    ("Only buckets of distances of e and further are wrong, all of them too small", {"back": lambda x: x.abs().clamp(max=127)}),
    (FAR, {"far": lambda x, e, top: x.log() / math.log(top)}),
    (FAR, {"far": lambda x, e, top: ((x - e) / (top - e)).sqrt()}),
    (FAR, {"span": lambda half, e: half - e - 1}),
    (FAR, {"span": lambda half, e: half - e + 1}),
    ("twice too large", {"span": lambda half, e: half}),
    ("/ instead of //", {"far": lambda x, e, top: (x // e).log() / math.log(top / e)}),
    ("distance 8 gets bucket 10; it should get 8", {"far": lambda x, e, top: (x / e).log1p() / math.log1p(top / e)}),
    ("different bases", {"far": lambda x, e, top: (x / e).log10() / math.log(top / e)}),
    ("nearer than e are wrong, all of them too large", {"near": lambda x, e: x < 1}),
    ("Only buckets of distances below 0 are wrong, all of them too small", {"after": lambda x, half: -half * (x < 0)}),
    ("below 0 are wrong, all of them too large", {"after": lambda x, half: 2 * half * (x < 0)}),
    ("The keys that come after are inverted", {"after": lambda x, half: half * (x >= 0)}),
    ("distance -45 gets bucket -37; it should get 15", {"back": lambda x: x}),
):  # fmt: skip
    wrong("t5_bucket", words, lambda x, b, f, changed=changed: bucket(x, b, f, **changed))


def turned(x, at, base, power=-2.0, pairs=lambda x: x.unflatten(-1, (-1, 2)).unbind(-1)):
    """Neighbours turned by ``at``."""
    angle = at * base ** (power * torch.arange(x.size(-1) // 2) / x.size(-1))
    a, b = pairs(x)
    return torch.stack(
        [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1
    ).flatten(-2)


def places(past, n):
    return (past[:, None] + torch.arange(n))[:, None, :, None]


def step(at=places, **options):
    """The exercise rotary_step."""
    return lambda q, k, past, base: tuple(
        turned(x, at(past, x.size(2)), base, **options) for x in (q, k)
    )


right("rotary_step", step())
for words, answer in (
    ("instead of 29 times 0.6325 radians", lambda q, k, past, base: step()(q, k, past, int(base))),
    ("is turned as if it stood at 0; it stands at 5", step(lambda p, n: places(p.min().expand_as(p), n))),
    ("is turned as if it stood at 0; it stands at 5", step(lambda p, n: places(p.sort().values, n))),
    ("sample 1, head 0, new token 0 is turned as if it stood at 5; it stands at 0", step(lambda p, n: places(p.cumsum(0), n))),
    ("is turned as if it stood at 1; it stands at 5", step(lambda p, n: places(0 * p + 1, n))),
    ("instead of 5 times 1 radian", step(lambda p, n: 180 / math.pi * places(p, n))),
    ("multiplied by 2 pi", step(lambda p, n: 2 * math.pi * places(p, n))),
    ("The speeds of the pairs are squared", step(power=-4.0)),
    ("The angles of pair 0 are used for all pairs", step(power=0.0)),
    ("by 1.153 instead of 5 times 0.3761 radians", step(power=-3.0)),
    ("of the key of sample 0, head 0, new token 0 is turned as if it stood at -5",
     lambda q, k, p, base: (step()(q, k, p, base)[0], step(lambda p, n: -places(p, n))(q, k, p, base)[1])),
    ("changes its length", lambda q, k, p, base: (step()(q, k, p, base)[0] + q, step()(q, k, p, base)[1])),
    ("No gradient flows through the keys", lambda q, k, p, base: step()(q, k.detach(), p, base)),
    ("of the query of sample 0, head 1, new token 0 is turned as if it stood at 0",
     lambda q, k, p, base: (torch.cat([step()(q, k, p, base)[0][:, :1], q[:, 1:]], 1), step()(q, k, p, base)[1])),
):  # fmt: skip
    wrong("rotary_step", words, answer)


def bias(table, n, m, column=lambda x, r: x.clamp(-r, r) + r):
    """The exercise repair_positions, with other columns."""
    apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
    return table[:, column(apart, table.size(1) // 2)]


right("repair_positions", bias)
for words, answer in (
    ("get the number for distance -4; their distance is 0", lambda t, n, m: bias(t, n, m, lambda x, r: x.clamp(-r, r).abs())),
    ("get the number for distance 2; their distance is -3, and beyond 2 the last column counts: that for -2",
     lambda t, n, m: bias(t, n, m, lambda x, r: (x + r).clamp(max=2 * r))),
    ("beyond the end of its axis", lambda t, n, m: bias(t, n, m, lambda x, r: (x + r).clamp(min=0))),
    ("get the number for distance -2; their distance is 0", lambda t, n, m: bias(t, n, m, lambda x, r: x.clamp(-2, 2) + 2)),
    ("The sign of the numbers of the table is turned", lambda t, n, m: -bias(t, n, m)),
    ("axes of size 1 are missing", lambda t, n, m: bias(t, n, m).squeeze(0)),
    ("which does not stand in the table", lambda t, n, m: bias(t, n, m).tril(m - n)),
    ("(at position 5) and key 0 get the number for distance -3", lambda t, n, m: bias(t, n, m, lambda x, r: (x - 2 * (m - n)).clamp(-r, r) + r)),
    ("got (4, 7, 7)", lambda t, n, m: bias(t, m, m)),
):  # fmt: skip
    wrong("repair_positions", words, answer)

CLOSE = "is close, but not right to four decimals"
for words, numbers in (
    ("not right to four decimals", (0.36, 0.02)),
    ("not right to four decimals", (0.358, 0.018)),
    (f"Number 1 {CLOSE}", (0.358, 0.0183)),
    (f"Number 1 {CLOSE}", (0.3574, 0.0183)),
    (f"Number 2 {CLOSE}", (0.3575, 0.0182)),
    ("Number 1 is too large", (35.75, 1.83)),
    ("Number 2 is too small", (0.3575, 0.0)),
    ("Number 2 is too large", (0.3575, 0.9817)),
    ("got 3 numbers", (0.3575, 0.0183, 0.0)),
):
    wrong("extrapolation", words, numbers)
wrong("extrapolation", "write it without quotes", made=True)(lambda: "0.3575, 0.0183")
right("extrapolation", (0.35752, 0.018316))
