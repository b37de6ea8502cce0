"""Exercise append: a cache that writes in the wrong place, repaired."""

from operator import index

import torch

from attncourse.grading.exercise import Exercise, run
from attncourse.grading.feed import ONE, Rows, judged


def steps(answer, seed: int, spoil: bool = False):
    """Facts, and what is seen of them."""
    most = 8 + seed % 4
    feed = Rows(answer, most, seed, spoil)
    cache, other, made, now = feed.new(), feed.new(), [], []
    for at, n in ((2, 2), (4, 1), (5, most - 4)):
        made.append(feed.give(cache, at, n))
        now.append(feed.told(made[-1]))
    yield "every call returns all tokens so far, by number", "; ".join(now)
    yield "a later call leaves earlier results as they are", "; ".join(map(feed.told, made))
    yield "length is the number of tokens", run(lambda: index(cache.length))
    yield "a chunk that does not fit raises a ValueError", feed.append(cache, most + 1, 2)
    yield "a chunk that is refused leaves length as it was", run(lambda: index(cache.length))
    yield "a chunk that fills the cache to its end fits", feed.append(cache, most + 1)
    yield "a full cache raises a ValueError", feed.append(cache, most + 2)
    yield "a first chunk that is too long raises one", feed.append(feed.new(), 2, most + 1)
    full = feed.new()
    yield "a first chunk may fill the cache", feed.append(full, 2, most)
    yield "a chunk behind it raises a ValueError", feed.append(full, 3)
    others = [feed.give(other, 0, 2), feed.give(other, 4)]
    yield "a token of zeros counts like any other", "; ".join(map(feed.told, others))
    yield "two caches have nothing in common", "; ".join(map(feed.told, made))
    yield ONE, feed.one_memory(other, others, 5, most - 3)
    yield "what is appended stays as it was", feed.kept()
    feed = Rows(answer, most + 5, seed + 1, spoil)
    cache = feed.new()
    full = [run(feed.give, cache, token) for token in range(most + 6)]
    yield "a cache of other sizes does the same", "; ".join(map(feed.told, full[-2:]))


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
    judge=judged(steps, RepairedCache),
    right=RepairedCache,
    asks_for="class",
    keeps_memory=True,
)
