"""A cache that is written row by row: hard-coded sizes, other types, what is returned, and what happens when it is full."""

import math

import torch

from unseen import right, wrong


def cache(full=lambda self, end: end > self.memory.size(2), error=ValueError, write=lambda new: new, count=lambda self, start, end: end,
          give=lambda self, new, end: self.memory[:, :, :end], memory=torch.zeros):  # fmt: skip
    """A cache as people write it; a mistake replaces one of its lines."""

    class Cache:
        def __init__(self, *sizes):
            self.memory, self.length = memory(*sizes), 0

        def append(self, new):
            start, end = self.length, self.length + new.size(2)
            if full(self, end):
                raise error("full")
            self.memory[:, :, start:end] = write(new)
            self.length = count(self, start, end)
            return give(self, new, end)

    return Cache


HALF = "about 2 about 3"
for says, steps in (
    ("a cache of other sizes does the same", {"full": lambda self, end: end > 8}),
    ("every call returns all tokens so far: raised", {"memory": lambda *sizes: torch.zeros(2, 3, 7, 5)}),
    ("2 3; 4; 5 6 7 8; it should be 2 3; 2 3 4; 2 3 4 5 6 7 8", {"give": lambda self, new, end: new}),
    ("What is returned is a copy", {"give": lambda self, new, end: self.memory[:, :, :end].contiguous()}),
    ("2 3 4; 2 3 4 5; 2 3 4 5 6 7 8 1; it should be", {"give": lambda self, new, end: self.memory[:, :, : end + 1]}),
    ("every call returns all tokens so far: shape (2, 2, 7, 3)", {"give": lambda self, new, end: self.memory[:, :, :end].transpose(1, 2)}),
    ("is `return` missing?", {"give": lambda self, new, end: None}),
    ("A token of zeros is lost", {"count": lambda self, start, end: int(self.memory.any(-1).any(1).any(0).sum())}),
    ("length is the number of tokens: 4; it should be 7", {"count": lambda self, start, end: max(start, end - start)}),
    ("slice indices must be integers", {"count": lambda self, start, end: float(end)}),
    ("(? is no token)", {"write": torch.relu}),
    ("(? is no token)", {"write": lambda new: new / 2}),
    ("(? is no token)", {"memory": lambda *sizes: torch.zeros(*sizes, dtype=torch.int64)}),
    (HALF, {"memory": lambda *sizes: torch.zeros(*sizes, dtype=torch.float16)}),
    ("about 2 about 3", {"write": lambda new: new.round(decimals=2)}),
    ("head 0 of 2", {"write": lambda new: new[:, :1]}),
    ("sample 0 of 2", {"write": lambda new: new[:1]}),
    ("compare the lengths before anything is written", {"full": lambda self, end: end - self.length > self.memory.size(2)}),
    ("compare the lengths before anything is written", {"full": lambda self, end: self.length >= self.memory.size(2)}),
    ("compare the lengths before anything is written", {"full": lambda self, end: self.length > self.memory.size(2)}),
    ("a chunk that does not fit raises a ValueError: raised RuntimeError", {"full": lambda self, end: end > 9}),
    ("compare the lengths before anything is written", {"error": RuntimeError}),
):  # fmt: skip
    wrong("append", says, cache(**steps))


@wrong("append", "what is appended stays as it was")
class ClearsWhatItIsGiven(cache()):
    def append(self, new):
        made = super().append(new)
        new.zero_()
        return made


@wrong("append", "a chunk that does not fit raises a ValueError", "should be raised ValueError")
class Grows(cache(full=lambda self, end: False)):
    def append(self, new):
        if self.length + new.size(2) > self.memory.size(2):
            self.memory = torch.cat([self.memory, torch.zeros_like(self.memory)], dim=2)
        return super().append(new)


@wrong("append", "The tensors themselves are kept")
class KeepsWhatItIsGiven:
    def __init__(self, batch, heads, max_length, head_dim):
        self.most, self.kept, self.length = max_length, [], 0

    def append(self, new):
        if self.length + new.size(2) > self.most:
            raise ValueError
        self.kept.append(new)
        self.length += new.size(2)
        return torch.cat(self.kept, dim=2)


@wrong("append", "length is the number of tokens")
class CountsForAllCaches(cache()):
    count = 0

    def append(self, new):
        self.length = CountsForAllCaches.count
        made = super().append(new)
        CountsForAllCaches.count, self.length = self.length, 0
        return made


@wrong("append", "has no attribute 'memory'")
class WithoutSuper(cache()):
    def __init__(self, *sizes):
        self.length = 0


@wrong("append", "The chunk that was refused has changed the cache")
class EmptiedWhenFull(cache()):
    def append(self, new):
        try:
            return super().append(new)
        except ValueError:
            self.length = 0
            raise


@right("append")
class CountsItsRows:
    def __init__(self, *sizes):
        self.memory = torch.full(sizes, math.nan)

    @property
    def length(self):
        return int((~self.memory[0, 0, :, 0].isnan()).sum())

    def append(self, new):
        start, end = self.length, self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError
        self.memory[:, :, start:end] = new
        return self.memory[:, :, :end]


right("append", cache(give=lambda self, new, end: self.memory.narrow(2, 0, end)))
right("append", cache(memory=lambda *sizes: torch.empty(*sizes, dtype=torch.float64)))
