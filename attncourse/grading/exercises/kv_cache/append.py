"""Exercise append: a cache that writes in the wrong place, repaired."""

from functools import lru_cache
from operator import index

import torch

from attncourse.grading.exercise import Exercise, Facts, Raised, run
from attncourse.grading.feed import Rows
from attncourse.grading.trained import up_to_wrong


def steps(answer, seed: int):
    """Facts, and what is seen of them."""
    most = 8 + seed % 4
    feed = Rows(answer, most, seed)
    cache, other = feed.new(), feed.new()
    made = [cache.append(feed.tokens(at, n)) for at, n in ((2, 2), (4, 1), (5, most - 4))]
    yield "every call returns all tokens so far, by number", "; ".join(map(feed.told, made))
    yield "length is the number of tokens", run(lambda: index(cache.length))
    yield "a chunk that does not fit raises a ValueError", feed.append(cache, most + 1, 2)
    yield "a chunk that is refused leaves length as it was", run(lambda: index(cache.length))
    yield "a chunk that fills the cache to its end fits", feed.append(cache, most + 1, 1)
    yield "a full cache raises a ValueError", feed.append(cache, most + 2, 1)
    yield "a first chunk that is too long raises one", feed.append(feed.new(), 2, most + 1)
    given = feed.tokens(0, 2)
    others = [other.append(given), other.append(feed.tokens(4))]
    yield "a token of zeros counts like any other", "; ".join(map(feed.told, others))
    yield "what is appended stays as it was", torch.equal(given, feed.tokens(0, 2))
    yield "two caches have nothing in common", "; ".join(map(feed.told, made))
    given.fill_(-1.0)
    yield "a tensor that changes behind append changes nothing", feed.append(other, 5, 1)
    others[1][:, :, :1] = feed.tokens(9)
    what = "every call returns a slice of one memory; torch.cat, clone and an index make copies"
    yield what, f"{feed.told(others[0])}; {feed.append(other, 6, 1)}"
    feed = Rows(answer, most + 5, seed + 1)
    cache = feed.new()
    full = [run(cache.append, feed.tokens(token)) for token in range(most + 6)]
    yield "a cache of other sizes does the same", "; ".join(map(feed.told, full[-2:]))


@up_to_wrong
def facts(answer, seed: int):
    """What is seen where it is not what the repaired cache shows."""
    for (what, seen), right in zip(steps(answer, seed), shown(seed), strict=True):
        told = f"{seen}; it should be {right}" + " (? is exactly no token)" * ("?" in str(seen))
        yield what, bool(seen == right) or (seen if isinstance(seen, Raised | bool) else told)


@lru_cache(maxsize=8)
def shown(seed: int) -> list:
    """What the repaired cache shows."""
    return [seen for _, seen in steps(RepairedCache, seed)]


class RepairedCache:
    def __init__(self, batch, heads, max_length, head_dim):
        self.memory = torch.zeros(batch, heads, max_length, head_dim)
        self.length = 0

    def append(self, new):
        start, end = self.length, self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError(f"{new.size(2)} tokens, but room for {self.memory.size(2) - start}")
        self.memory[:, :, start:end] = new
        self.length = end
        return self.memory[:, :, :end]


EXERCISE = Exercise(
    name="append",
    answer="RepairedCache",
    judge=Facts(facts, tuple(dict(steps(RepairedCache, 0)))),
    right=RepairedCache,
    asks_for="class",
    keeps_memory=True,
)
