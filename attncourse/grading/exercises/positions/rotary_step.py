"""Exercise rotary_step: turn what is new behind caches of different lengths."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.explain.places import apart

NEAR = 1e-3


def side_by_side(x):
    """Both numbers of pair c, 2 c and 2 c + 1, at c and c + d / 2."""
    return torch.cat([x[..., ::2], x[..., 1::2]], -1)


def as_neighbours(x):
    """The way back."""
    return torch.stack(x.chunk(2, -1), -1).flatten(-2)


def definition(query, key, past, base):
    """`spec.rotary`, sample by sample; the pairs stand there as it expects them."""

    def turn(x):
        places = [list(range(p, p + x.size(2))) for p in past.tolist()]
        samples = zip(side_by_side(x), places, strict=True)
        return as_neighbours(torch.stack([spec.rotary(y, at, base) for y, at in samples]))

    return turn(query), turn(key)


CALLS = (  # what is special, b h g n d, base
    ("5 new tokens, 2 samples, base 50", (2, 3, 1, 5, 8), 50.0),
    ("1 new token each, 3 samples, 4 heads, 2 key/value heads, head_dim 6", (3, 4, 2, 1, 6), 1e4),
    ("4 new tokens, 4 samples, 4 heads, base 2.5", (4, 4, 4, 4, 4), 2.5),
    ("1 sample, 2 new tokens, 1 pair", (1, 2, 1, 2, 2), 1e4),
    ("3 samples, 2 new tokens behind about 1500", (3, 2, 1, 2, 8), 1e4),
)


def cases(seed: int) -> list[Case]:
    """Each sample has another past; one of them has none."""
    g, found = seeded(seed), []
    for what, (b, h, g_heads, n, d), base in CALLS:
        query, key = normal(g, (b, h, n, d), (b, g_heads, n, d))
        past = 1 + torch.randperm(40, generator=g)[:b]
        past[1:2] = 0
        past += 1500 * ("1500" in what)
        found.append(Case(what, (query, key, past, base)))
    return found


@Dataflow
def right(query, key, past, base):
    n, d = query.shape[2:]
    places = yield "the positions of the new tokens", past[:, None] + torch.arange(n)
    speeds = yield "the speeds of the pairs", base ** (-2 * torch.arange(d // 2) / d)
    angles = yield "the angles", places[..., None] * speeds

    def turn(x):
        (a, b), c, s = side_by_side(x).chunk(2, -1), angles.cos()[:, None], angles.sin()[:, None]
        return as_neighbours(torch.cat([a * c - b * s, a * s + b * c], -1))

    queries = yield "the turned queries", turn(query)
    keys = yield "the turned keys", turn(key)
    return queries, keys


def turned(asked: Asked) -> str:
    """How the first wrong pair of the first wrong call is turned, and how it should be."""
    if not asked.shaped or len(asked.shaped) < len(asked.wrong):
        return ""
    label, case, *results = asked.shaped[0]
    *_, past, base = case.args
    for name, given, right, seen in zip(("query", "key"), case.args, *results):  # noqa: B905
        wrong = apart(right, seen).unflatten(-1, (-1, 2)).any(-1)
        if wrong.any():
            b, h, t, c = wrong.nonzero()[0].tolist()
            by = (as_complex(seen) / as_complex(given))[..., c]
            speed = base ** (-2 * c / given.size(-1))
            pair = f"In the call '{label}' pair {c} of the {name}"
            if (by - 1).abs().max() < NEAR:
                should = f"it should turn by {speed:.4g} for each position"
                return f"{pair} comes back as it came, in all tokens; {should}."
            pairs = (as_complex(seen) / as_complex(given))[b, h, t]
            speeds = base ** (-2 * torch.arange(len(pairs)) / given.size(-1))
            how = how_turned(pairs, speeds, c, int(past[b]) + t)
            return f"{pair} of sample {b}, head {h}, new token {t} {how}."
    return ""


def as_complex(x: torch.Tensor) -> torch.Tensor:
    """Each pair as one number."""
    return torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())


def how_turned(pairs: torch.Tensor, speeds: torch.Tensor, c: int, place: int) -> str:
    """What was done to a pair of a token; another position where all pairs of the token fit it."""
    if (pairs[c].abs() - 1).abs() > NEAR:
        return "changes its length, as no turn does: look at what makes a pair, and how it turns"
    others = torch.arange(min(-100, place - 200), max(201, place + 200))
    fits = (torch.polar(torch.ones(1), others[:, None] * speeds) - pairs).abs() < NEAR
    near = others[fits.all(-1)].tolist()
    if len(near) == 1 and len(pairs) > 1:
        return f"is turned as if it stood at {near[0]}; it stands at {place}"
    by = pairs[c].angle()
    return f"is turned by {by:.4g} instead of {place} times {speeds[c]:.4g} radians"


EXERCISE = Exercise(
    name="rotary_step",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n d", "b h n d"),
    results=("the queries", "the keys"),
    explain=(turned,),
)
