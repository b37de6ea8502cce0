"""Tokens in the slots of a cache that forgets, and the places at which an answer has seen them."""

import torch

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.kv_cache.rotate_cached_keys import rotary


def rank(tokens):
    """How many older tokens are there."""
    return (tokens[:, None] > tokens).sum(1)


def ring(sinks: int, window: int, seen: int, g) -> torch.Tensor:
    """The text's position of the token in each slot. The newest takes the oldest one's slot; or there is no order."""
    text = torch.arange(abs(seen))
    slots = torch.where(text < sinks, text, sinks + (text - sinks) % window)
    found = torch.zeros(min(abs(seen), sinks + window), dtype=torch.long)
    for token, slot in enumerate(slots.tolist()):
        found[slot] = token
    return found if seen > 0 else found[torch.randperm(len(found), generator=g)]


def opposite(query, own):
    """The score of the newest token with itself is far above all others in one head, and far below in the next."""
    own.fill_(3.0)
    query.copy_(2000 * (-1.0) ** torch.arange(query.size(1))[:, None, None] * own[:, :, None])


FURTHEST = 60


class Places(Calls):
    """`Calls` that reads, of the weights in its first case, how far each token was from the query."""

    def notice(self, expected, seen, seed: int) -> str:
        case = cases_of(self, seed)[0]
        got, (query, key, _, tokens) = seen.get(f"{case.label}, output"), case.args
        weights = got[1] if isinstance(got, tuple) and len(got) == 2 else None
        if not plain(weights) or weights.shape != (*query.shape[:3], len(tokens)):
            return ""
        found = distances(query, key, weights.float(), int(tokens.argmax()))
        right = (len(tokens) - 1 - rank(tokens)).tolist()
        if found in (None, right):
            return ""
        return (
            f"The weights are those of tokens that stand {found} places before the query, slot by slot. With tokens "
            f"{tokens.tolist()} in the slots these should be {right}."
        )


def distances(query, key, weights, own: int) -> list[int] | None:
    """The distances that explain these weights, or ``None``.

    Logarithms of weights are scores but for a constant a row: that of the newest token, at each distance
    at which it can be.
    """
    distance = torch.arange(-FURTHEST, FURTHEST + 1)
    asks = rotary(query.expand(-1, -1, len(distance), -1), distance)
    scores = asks @ key.mT / query.size(-1) ** 0.5  # (b, h, distances, slots)
    shape = (weights.log() - weights.log()[..., own : own + 1])[:, :, 0]
    for start in distance.abs().argsort():
        wanted = shape + scores[:, :, start, own, None]
        error, at = (scores - wanted[:, :, None]).abs().amax(dim=(0, 1)).min(dim=0)
        if error.max() < 1e-3:
            return distance[at].tolist()
    return None
