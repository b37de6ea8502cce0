"""Exercise cache_places: rotary positions in a cache that forgets, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.heads import rotary


def definition(query, key, value, tokens):
    """Each key is turned by the number of older tokens there; the query stands with the newest."""
    places = [int((tokens < token).sum()) for token in tokens]
    query, key = spec.rotary(query, [max(places)]), spec.rotary(key, places)
    return spec.scaled_dot_product_attention(query, key, value)


CALLS = (  # special about the call, b h d e, sinks, window, tokens so far, how loud
    ("2 sinks and a window of 5, after 24 tokens", (2, 3, 6, 8), 2, 5, 24, 1),
    ("nothing forgotten yet: 4 tokens", (1, 2, 8, 5), 4, 4, 4, 1),
    ("no sinks, a window of 6, after 100 tokens", (2, 1, 4, 7), 0, 6, 100, 1),
    ("4 sinks and a window of 7, after 20 million tokens", (1, 3, 6, 4), 4, 7, 5000, 1),
    ("6 sinks, a window of 3, the slots in no order, with gaps", (2, 3, 6, 5), 6, 3, -40, 1),
    ("scores of both signs, very large", (2, 2, 6, 3), 1, 1, 9, 0),
)


def in_slots(sinks: int, window: int, seen: int, g: torch.Generator) -> torch.Tensor:
    """The token in each slot. The newest takes the oldest one's slot; or there is no order."""
    found = torch.zeros(min(abs(seen), sinks + window), dtype=torch.long)
    for token in range(abs(seen)):
        found[token if token < sinks else sinks + (token - sinks) % window] = token
    return found if seen > 0 else found[torch.randperm(len(found), generator=g)]


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), sinks, window, seen, loud in CALLS:
        tokens = in_slots(sinks, window, seen, g)
        if "gaps" in what:
            tokens = 2 * tokens + (tokens % 3 == 0)
        if "million" in what:  # float32 cannot tell these apart
            tokens[tokens >= sinks] += 20_000_000
        m = len(tokens)
        query, key, value = normal(g, (b, h, 1, d), (b, h, m, d), (b, h, m, e))
        query *= loud
        if "signs" in what:  # that of the newest with itself is far above or below all others
            key[:, :, tokens.argmax()] = 3.0
            query += 6000 * (-1.0) ** torch.arange(h)[:, None, None]
        found.append(Case(what, (query, key, value, tokens), gradients=loud == 1))
    return found


@Dataflow
def right(query, key, value, tokens):
    """Each token stands where its rank says, from the oldest on; the query with the newest."""
    places = yield "the places of the keys", (tokens[:, None] > tokens).sum(1)
    query = rotary(query, torch.tensor([len(tokens) - 1]))
    scores = yield "the scaled scores", query @ rotary(key, places).mT / query.size(-1) ** 0.5
    weights = yield "the weights", scores.softmax(-1)
    return weights @ value, weights


def distances(asked: Asked) -> str:
    """How far each token stood from the query in the first call, read from the weights."""
    call = asked.shaped[0]
    if call is not asked.calls[0]:
        return ""
    (query, key, _, tokens), weights = call.case.args, call.seen[1].float()
    # Logarithms of weights are scores but for a constant a row: that of the newest token.
    own, tried = int(tokens.argmax()), torch.arange(-60, 61)
    scores = rotary(query.expand(-1, -1, len(tried), -1), tried) @ key.mT / query.size(-1) ** 0.5
    logs = weights.log()[:, :, 0]
    for start in tried.abs().argsort():
        wanted = logs - logs[..., own : own + 1] + scores[:, :, start, own, None]
        error, at = (scores - wanted[:, :, None]).abs().amax(dim=(0, 1)).min(dim=0)
        if error.max() < 1e-3:
            found, right = tried[at].tolist(), [sum(tokens > x).item() for x in tokens]
            said = f"The weights are those of tokens that stand {found} places before the query"
            asks = f"With tokens {tokens.tolist()} in the slots these should be {right}."
            return f"{said}, slot by slot. {asks}" if found != right else ""
    return ""


EXERCISE = Exercise(
    name="cache_places",
    answer="read_cache",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    explain=(distances,),
    ideas=[
        right.but("argsort says which slot holds the oldest token; asked is the reverse, the place "
                  "of the token in each slot: argsort of that.",
                  "the places of the keys", torch.argsort),
    ],
)  # fmt: skip
