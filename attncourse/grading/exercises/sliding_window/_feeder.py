"""Feeds caches that roll, and tells what comes back of them; the seed draws sizes and numbers."""

from collections.abc import Iterator
from operator import index
from typing import Any

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercises.sliding_window._rolling import RIGHT
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import run


class Feeder:
    """Feeds caches with numbered tokens, and reads which of them, and which positions, come back."""

    def __init__(self, answer, seed: int):
        b, h, d = (2 + torch.randperm(6, generator=seeded(seed, "sizes"))[:3]).tolist()
        self.window = w = 4 + seed % 4
        self.new = lambda window=w: answer(b, h, window, d)
        drawn = [torch.randn(b, h, d, generator=seeded(seed, token)) for token in range(6 * w)]
        self.pool = torch.stack(drawn, dim=2)
        self.pool[:, :, 1] = 0.0  # a token may be all zeros

    def tokens(self, first: int, n: int) -> torch.Tensor:
        return self.pool[:, :, first : first + n].clone()

    def append(self, cache, first: int, n: int) -> str:
        """Append tokens first to first + n - 1, and tell what comes back."""
        new = self.tokens(first, n)
        told = self.read(run(cache.append, new))
        kept = torch.equal(new, self.pool[:, :, first : first + n])
        return told if kept else f"{told}, and the new tokens are changed in place"

    def read(self, found) -> str:
        """``position:token`` of every slot, by position; '?' is no token that was ever given."""
        if isinstance(found, Raised):
            return f"raised {found.kind}"
        if found is None:
            return "None; is `return` missing?"
        if not isinstance(found, tuple | list) or len(found) != 2:
            many = f" of {len(found)}" if isinstance(found, tuple | list) else ""
            return f"a {type(found).__name__}{many}; expected (tokens, positions)"
        tokens, positions = found
        at = run(lambda: [index(x) for x in positions])
        if not plain(tokens):
            return f"a {type(tokens).__name__} as tokens"
        if isinstance(at, Raised):
            return "no whole numbers, one for each token, as positions"
        if tokens.dim() != 4 or tokens[:, :, :1].shape != self.tokens(0, 1).shape:
            return f"tokens of shape {tuple(tokens.shape)}"
        if len(at) != tokens.size(2):
            return f"{tokens.size(2)} tokens and {len(at)} positions"
        same = (self.pool[:, :, :, None] == tokens[:, :, None]).all(-1).flatten(0, 1).all(0)
        names = [str(int(x.int().argmax())) if x.any() else "?" for x in same.T]
        return " ".join(f"{p}:{name}" for p, name in sorted(zip(at, names, strict=True)))


def length(cache) -> str:
    """How long it says that it is."""
    found = run(lambda: index(cache.length))
    return f"raised {found.kind}" if isinstance(found, Raised) else str(found)


def slots(cache, feed) -> str:
    """How many tokens fit into the memory of which it returns a view."""
    one, w = feed.tokens(0, 1), feed.window
    memory = cache.append(one)[0].untyped_storage()
    room = memory.nbytes() // cache.append(one)[0].element_size() // one.numel()
    return "so many" if room <= w else f"{room} slots for a window of {w}"


def steps(answer: Any, seed: int) -> Iterator[tuple[str, str]]:
    """What is seen step by step."""
    feed = Feeder(answer, seed)
    w, cache, other = feed.window, feed.new(), feed.new()
    made = [cache.append(feed.tokens(at, n)) for at, n in ((0, 1), (1, 2))]
    yield (
        "while there is room, every token is kept at its position",
        "; ".join(map(feed.read, made)),
    )
    yield "when the last slot is filled, too", feed.append(cache, 3, w - 3)
    further = [feed.append(cache, at, 1) for at in range(w, 2 * w + 1)]
    yield "then each token takes the place of the oldest one", "; ".join(further)
    feed.append(other, 0, w - 1)
    yield "a chunk goes on at the front where the memory ends", feed.append(other, w - 1, 3)
    yield "a chunk may be as long as the window", feed.append(other, w + 2, w)
    yield "two caches have nothing in common", feed.append(cache, 2 * w + 1, 1)
    yield "of a longer chunk the last tokens are kept", feed.append(other, 2 * w + 2, w + 3)
    yield "and one more token", feed.append(other, 3 * w + 5, 1)
    yield "a first chunk may be longer, too", feed.append(feed.new(), 0, 2 * w + 1)
    yield "length is the number of tokens seen so far", ", ".join(map(length, (cache, other)))
    alone = feed.new(1)
    yield "a window of 1", "; ".join(feed.append(alone, at, 1) for at in range(3))
    again = []
    for x, at in (cache, 2 * w + 2), (feed.new(), 0):
        held = x.append(feed.tokens(at, 1))[0]
        held[:, :, :1] = feed.tokens(5, 1)
        x.append(feed.tokens(at + 1, 1))
        tokens, positions = x.append(feed.tokens(at + 2, 1))
        again += [feed.read((y, positions[: y.size(2)])) for y in (tokens, held)]
    yield "the tokens returned are a view of the memory, in every call", "; ".join(again)
    yield "the memory has as many slots as the window, and no more", slots(feed.new(), feed)
    given = feed.tokens(3, 1)
    last = feed.new()
    last.append(given)
    given.fill_(-1.0)
    yield "a tensor that changes after it was appended changes nothing", feed.append(last, 4, 1)


def facts(answer, seed: int):
    """What is seen where it is not what the repaired cache shows."""
    for (what, seen), (_, right) in zip(steps(answer, seed), steps(RIGHT, seed), strict=True):
        yield what, bool(seen == right) or seen
