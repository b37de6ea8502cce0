"""Exercise cache_places: rotary positions in a cache that forgets, repaired."""

from collections.abc import Callable

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.kv_cache.rotate_cached_keys import complex_numbers, rotary
from attncourse.grading.exercises.sinks._places import Places, opposite, rank, ring
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import ATTENTION, mistakes_of, weights
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe


def definition(query, key, value, tokens):
    """Each key is turned by the number of older tokens that are there; the query stands with the newest."""
    places = [int((tokens < token).sum()) for token in tokens]
    query, key = spec.rotary(query, [max(places)]), spec.rotary(key, places)
    return spec.scaled_dot_product_attention(query, key, value)


CALLS = (  # what is special, b h d e, sinks, window, tokens so far, how loud
    ("2 sinks and a window of 5, after 24 tokens", (2, 3, 6, 8), 2, 5, 24, 1),
    ("nothing forgotten yet: 4 tokens", (1, 2, 8, 5), 4, 4, 4, 1),
    ("no sinks, a window of 6, after 100 tokens", (2, 1, 4, 7), 0, 6, 100, 1),
    ("4 sinks and a window of 7, after 20 million tokens", (1, 3, 6, 4), 4, 7, 5000, 1),
    ("3 sinks and a window of 4, the slots in no order", (3, 2, 8, 6), 3, 4, -13, 1),
    ("1 token", (2, 3, 4, 6), 1, 3, 1, 1),
    ("large scores", (1, 2, 6, 5), 2, 6, 31, 144),
    ("scores of both signs, very large", (2, 2, 6, 3), 1, 1, 9, opposite),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), sinks, window, seen, loud in CALLS:
        tokens = ring(sinks, window, seen, g)
        if "million" in what:  # float32 cannot tell these apart
            tokens[tokens >= sinks] += 20_000_000
        m = len(tokens)
        query, key, value = normal(g, (b, h, 1, d), (b, h, m, d), (b, h, m, e))
        if callable(loud):
            loud(query, key[:, :, tokens.argmax()])
        else:
            query *= loud
        found.append(Case(what, (query, key, value, tokens), gradients=loud == 1))
    return found


def last(tokens):
    return len(tokens) - 1 + 0 * tokens[:1]


def turned(query_at: Callable = last, key_at: Callable = rank, turn: Callable = rotary):
    """What is given, turned by what is made of the tokens; ``rest`` has the tokens."""

    def given(query, key, value, tokens):
        query, key = turn(query, query_at(tokens)), turn(key, key_at(tokens))
        return Given(query, key, value, rest=tokens)

    return given


RIGHT = Recipe(turned())
ACCEPTED = Accepted(
    count_the_older=RIGHT,
    argsort_twice=Recipe(turned(key_at=lambda tokens: tokens.argsort().argsort())),
    complex_numbers_in_float64=Recipe(turned(turn=complex_numbers)),
    all_shifted_alike=Recipe(turned(lambda t: last(t) + 50, lambda t: rank(t) + 50)),
)


@ACCEPTED.add
def in_order_and_back(query, key, value, tokens):
    order = tokens.argsort()
    at = torch.arange(len(tokens))
    key = rotary(key[:, :, order], at)
    scores = rotary(query, at[-1:]) @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores, -1)
    back = torch.empty_like(weights)
    back[..., order] = weights
    return weights @ value[:, :, order], back


@ACCEPTED.add
def by_the_distance(query, key, value, tokens):
    """A list of Python: the query is turned by the distance, and the keys are not turned."""
    places = [sorted(tokens.tolist()).index(t) for t in tokens.tolist()]
    asks = [rotary(query, torch.tensor([len(places) - 1 - p])) for p in places]
    scores = (torch.cat(asks, 2) * key).sum(-1)[:, :, None] / query.size(-1) ** 0.5
    weights = scores.softmax(-1)
    return [weights @ value, weights]


def text(tokens):
    return tokens


def newest(tokens):
    return tokens.max()[None]


def slot(tokens):
    return torch.arange(len(tokens))


def nothing(tokens):
    return 0 * tokens[:1]


def slot_of_newest(tokens):
    return tokens.argmax()[None]


def neighbours(x, positions):
    """Feature 2 i is paired with 2 i + 1."""
    halves = x.unflatten(-1, (-1, 2)).mT.flatten(-2)
    return rotary(halves, positions).unflatten(-1, (2, -1)).mT.flatten(-2)


def sorted_keys(query, key, value, tokens):
    order = tokens.argsort()
    return RIGHT.given(query, key[:, :, order], value, tokens[order])


def values_turned(query, key, value, tokens):
    return RIGHT.given(
        query, key, rotary(value, rank(tokens)) if value.size(-1) % 2 == 0 else value, tokens
    )


PLACES = (  # of the query, of the keys
    ("The distances are still those of the text, as found; what counts is the place among the tokens that are there.", newest, text),
    ("The keys are repaired; the query still stands at its place in the text, too far away from all of them.", newest, rank),
    ("The query is repaired; the keys still stand at their places in the text.", last, text),
    ("The keys are turned by their slots, but the slots are in no order: the newest token took the oldest one's.", last, slot),
    ("The keys are turned by their slots, but the slots are in no order; and the query still stands at its place in "
     "the text.", newest, slot),
    ("Query and keys are turned by their slots, but the slots are in no order.", slot_of_newest, slot),
    ("The keys are right, but the query is turned by the slot of its token.", slot_of_newest, rank),
    ("The query stands one place behind its own key; it belongs to the newest token, whose place is len(tokens) - 1.", lambda t: last(t) + 1, rank),
    ("The query stands one place before its own key; it belongs to the newest token, whose place is len(tokens) - 1.", lambda t: last(t) - 1, rank),
    ("argsort says which slot holds the oldest token, the second oldest ...; asked is the reverse, the place of the "
     "token in each slot: argsort of that.", last, lambda t: t.argsort()),
    ("The places are counted from the newest token to the oldest.", last, lambda t: len(t) - 1 - rank(t)),
    ("All are turned in the opposite direction: places are counted from the newest token, or angles are negative.", nothing, lambda t: len(t) - 1 - rank(t)),
    ("The positions are those of the text modulo the number of slots; tokens of the window stand in order, whatever is "
     "divided.", last, lambda t: t % len(t)),
    ("The positions are those of the text modulo the number of slots; tokens of the window stand in order, whatever is "
     "divided.", lambda t: newest(t) % len(t), lambda t: t % len(t)),
    ("All tokens beyond the number of slots get the last place; each has its own.", last, lambda t: t.clamp(max=len(t) - 1)),
    ("The query is not turned; it stands at the last place.", nothing, rank),
    ("The keys are not turned.", last, nothing),
    ("The keys are not turned.", newest, nothing),
    ("Neither query nor keys are turned.", nothing, nothing),
    ("The window is counted from 0, so that its places are those of the sinks, too; it begins behind them.", last,
     lambda t: torch.where(t < len(t) // 2, t, rank(t) - (t < len(t) // 2).sum())),
    ("The keys are turned in the opposite direction of the query.", last, lambda t: -rank(t)),
    ("The query is turned by the place of the token in the last slot; it belongs to the newest token.", lambda t: rank(t)[-1:], rank),
    ("The positions are sorted, but the keys are not: those of the text no longer lie where they belong.", last, lambda t: t.sort().values),
    ("The slots are rolled in the wrong direction.", last, lambda t: slot(t).roll(int(t.argmax()) + 1)),
    ("The keys are turned twice.", last, lambda t: 2 * rank(t)),
)  # fmt: skip
WITHOUT = (
    "softmax over queries", "softmax over both", "weights transposed", "scaled by queries", "query and key swapped",
    "heads merged", "positions first",
)  # fmt: skip
MISTAKES = Mistakes([
    *(RIGHT.but(says, given=turned(query_at, key_at)) for says, query_at, key_at in PLACES),
    *(RIGHT.but(says, **steps) for says, steps in (
        ("Neighbouring features are paired; feature i is paired with i + d / 2, as the given rotary does.",
         {"given": turned(turn=neighbours)}),
        ("The keys are sorted by the text and the values are not: they no longer belong together.", {"given": sorted_keys}),
        ("Query and keys are turned by the text and by the places, one after the other.",
         {"given": lambda q, k, v, t: RIGHT.given(rotary(q, newest(t)), rotary(k, t), v, t)}),
        ("Keys and values are sorted by the text, but turned by the places of the unsorted ones.", {"given": lambda q, k, v, t:
         Given(rotary(q, last(t)), rotary(k[:, :, t.argsort()], rank(t)), v[:, :, t.argsort()], rest=t)}),
        ("The values are turned, too; positions belong into queries and keys only.", {"given": values_turned}),
        ("The weights are returned in the order of the text; return them slot by slot, as the keys came.",
         {"answer": lambda o, w, s, x: (o, w[..., x.rest.argsort()])}),
        ("The newest token does not read itself; its key is there.",
         {"mask": lambda s, x: s.masked_fill(x.rest == x.rest.max(), -torch.inf)}),
        ("A causal mask over the slots hides tokens; all that are there are older than the query, or itself.",
         {"mask": lambda s, x: s.masked_fill(slot(x.rest) > x.rest.argmax(), -torch.inf)}),
    )),
    *mistakes_of(RIGHT, *ATTENTION, weights, without=WITHOUT),
])  # fmt: skip

EXERCISE = Exercise(
    name="cache_places",
    answer="read_cache",
    judge=Places(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
