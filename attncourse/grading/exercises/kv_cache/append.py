"""Exercise append: a cache that writes in the wrong place, repaired."""

from functools import lru_cache
from operator import index

import torch

from attncourse.grading.exercise import Exercise, Facts, run
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.feed import Rows

RETURNS = "every call returns all tokens so far"


def steps(answer, seed: int):
    """What is seen step by step."""
    most = 8 + seed % 4
    feed = Rows(answer, most, seed)
    cache, other = feed.new(), feed.new()
    made = [cache.append(feed.tokens(at, n)) for at, n in ((2, 2), (4, 1), (5, most - 4))]
    yield RETURNS, "; ".join(map(feed.told, made))
    yield "length is the number of tokens", run(lambda: index(cache.length))
    yield "a chunk that does not fit raises a ValueError", feed.append(cache, most + 1, 2)
    yield "after that the cache is as before", run(lambda: index(cache.length))
    yield "a chunk that fills the cache to its end fits", feed.append(cache, most + 1, 1)
    yield "a full cache takes no further token", feed.append(cache, most + 2, 1)
    yield "a first chunk that does not fit is refused", feed.append(feed.new(), 2, most + 1)
    given = feed.tokens(0, 2)
    others = [other.append(given), other.append(feed.tokens(4))]
    yield "a token may be all zeros", "; ".join(map(feed.told, others))
    yield "what is appended stays as it was", torch.equal(given, feed.tokens(0, 2))
    yield "two caches have nothing in common", "; ".join(map(feed.told, made))
    given.fill_(-1.0)
    yield "a tensor that changes behind append changes nothing", feed.append(other, 5, 1)
    others[1][:, :, :1] = feed.tokens(9)
    seen = feed.told(others[0]), feed.append(other, 6, 1)
    yield "what is returned is a view of one memory, in every call", "; ".join(seen)
    feed = Rows(answer, most + 5, seed + 1)
    cache = feed.new()
    full = [run(cache.append, feed.tokens(token)) for token in range(most + 6)]
    yield (
        "a cache of other sizes does the same, token by token",
        "; ".join(map(feed.told, full[-2:])),
    )


def facts(answer, seed: int):
    """What is seen where it is not what the repaired cache shows."""
    made, error = [], None
    try:  # at once: what others do meanwhile to a memory that all caches share must not be seen
        made += steps(answer, seed)
    except (Exception, SystemExit) as raised:
        error = raised
    for (what, seen), right in zip(made, shown(seed), strict=False):
        told = f"{seen}; it should be {right}" + " (? is no token)" * ("?" in str(seen))
        yield what, bool(seen == right) or (seen is not False and told)
    if error:
        raise error


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


MEANINGS = (  # of the first fact that is wrong
    ("not fit raises a ValueError: raised", "A chunk that does not fit must raise a ValueError: "
     "compare the lengths before anything is written."),
    ("after that the cache is as before", "The chunk that was refused has changed the cache: "
     "compare the lengths first, then write and count."),
    ("a full cache takes no", "A full cache must raise a ValueError. A slice of no rows takes one "
     "token without an error; compare the lengths."),
    ("a first chunk that", "Nothing is checked while the cache is empty; the first chunk may be "
     "too long."),
    ("fills the cache to its end", "All of max_length can be used; a chunk that just fits is none "
     "that is too long."),
    ("all zeros", "A token of zeros is lost; count what is appended, not the rows that are not 0."),
    ("two caches", "Caches share something: make the memory in the constructor."),
    ("a tensor that changes", "The tensors themselves are kept; copy their numbers into a memory."),
    ("a view of one memory", "What is returned is a copy, as torch.cat, clone or an index "
     "makes it; write into one memory, and return a slice of it."),
    ("a cache of other sizes", "Another cache goes wrong: take its sizes from the constructor, and "
     "look at what happens when it is full."),
)  # fmt: skip

EXERCISE = Exercise(
    name="append",
    answer="RepairedCache",
    judge=Facts(facts, tuple(dict(steps(RepairedCache, 0)))),
    right=RepairedCache,
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="class",
    keeps_memory=True,
)
