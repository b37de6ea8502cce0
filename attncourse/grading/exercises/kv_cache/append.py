"""Exercise append: a cache that writes in the wrong place, repaired."""

import torch

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.kv_cache._append_judge import (
    BATCH,
    HEAD_DIM,
    HEADS,
    MAX_LENGTH,
    NAMES,
    facts,
)


class AsFound:
    """The cache of the exercise, before the repair."""

    def __init__(self, batch, heads, max_length, head_dim):
        self.memory = torch.zeros(batch, heads, max_length, head_dim)
        self.length = 0

    def append(self, new):
        n = new.size(2)
        self.memory[:, :, :n] = new
        self.length += n
        return self.memory


ACCEPTED = Accepted()


@ACCEPTED.add
class Slices(AsFound):
    def append(self, new):
        end = self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError(f"{end} tokens do not fit into {self.memory.size(2)}")
        self.memory[:, :, self.length : end] = new
        self.length = end
        return self.memory.narrow(2, 0, int(end))


@ACCEPTED.add
class SequenceFirst:
    def __init__(self, batch, heads, max_length, head_dim):
        self.rows = torch.empty(max_length, batch, heads, head_dim, dtype=torch.float64)
        self.length = 0

    def append(self, new):
        if self.length + new.size(2) > len(self.rows):
            raise ValueError("the cache is full")
        for row in new.unbind(2):
            self.rows[self.length] = row
            self.length += 1
        return self.rows[: self.length].permute(1, 2, 0, 3)


@ACCEPTED.add
class IndexCopy(AsFound):
    class Full(ValueError):
        pass

    def append(self, new):
        at = torch.arange(new.size(2)) + self.length
        if int(at[-1]) >= self.memory.size(2):
            raise self.Full
        self.memory.index_copy_(2, at, new)
        self.length = int(at[-1]) + 1
        return self.memory[..., : self.length, :]


@ACCEPTED.add
class LengthIsATensor(Slices):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.length = torch.tensor(0)


MISTAKES = Mistakes()
ERRORS = {"nobody": RuntimeError, "index": IndexError, "assert": AssertionError}


def cache(says, write="right", returned="filled", refuse="right", count="right"):
    """Register a cache that differs from the right one in what is named."""

    @MISTAKES.add(says)
    class Wrong(AsFound):
        def append(self, new):
            n, most = new.size(2), self.memory.size(2)
            start, end = self.length, self.length + n
            if count == "early":
                self.length = end
            if end > most:
                if refuse in ("right", "early"):
                    raise ValueError("full")
                if refuse in ERRORS:
                    raise ERRORS[refuse]("full")
                if refuse == "half":
                    self.memory[:, :, start:], self.length = new[:, :, : most - start], most
                    raise ValueError("full")
                new, n, end = new[:, :, : most - start], max(most - start, 0), most
            if refuse == "early" and end == most:
                raise ValueError("full")
            at = {"right": start, "front": 0, "end": most - n, "before": max(start - n, 0)}[write]
            self.memory[:, :, at : at + n] = new.flip(2) if returned == "flipped" else new
            self.length = {"one": start + 1, "never": start, "given": n}.get(count, end)
            if returned in ("filled", "flipped"):
                return self.memory[:, :, :end]
            parts = {"all": slice(None), "new": slice(at, end), "old": slice(0, start)}
            return self.memory[:, :, parts[returned]]


cache(
    "Every chunk is written at the front, over the tokens that were there; write behind them.",
    write="front",
)
cache("All of the memory is returned, rows that nobody wrote included.", returned="all")
cache("Only the new tokens are returned; attention needs all of them.", returned="new")
cache("The new tokens are missing in what is returned; count them first.", returned="old")
cache("The tokens are written at the end of the memory; write behind the last one.", write="end")
cache("length does not grow, so every chunk is written over the last one.", count="never")
cache("length grows by 1 in every call; it must grow by the number of new tokens.", count="one")
cache("length becomes the number of new tokens; add it to what is there.", count="given")
cache("Tokens that do not fit are dropped in silence; raise a ValueError.", refuse="never")
cache(
    "Nothing checks whether the tokens fit: torch complains with a RuntimeError; raise a ValueError "
    "before anything is written.",
    refuse="nobody",
)
cache("A full cache must raise a ValueError, not an IndexError.", refuse="index")
cache("A full cache must raise a ValueError; assert raises an AssertionError.", refuse="assert")
cache(
    "The tokens that fit were written and counted before the error; check the whole chunk first.",
    refuse="half",
)
cache("A chunk that just fits is refused; all of max_length can be used.", refuse="early")
cache("length has grown although the chunk was refused; check first, then count.", count="early")
cache("The new tokens are written in the opposite order.", returned="flipped")


@MISTAKES.add(
    "This is the code as found: written at the front, returned with rows that nobody wrote."
)
class StillAsFound(AsFound):
    pass


@MISTAKES.add(
    "All tokens are copied in every call, by torch.cat or clone; write into the memory that is there."
)
class Concatenated(AsFound):
    def append(self, new):
        if self.length + new.size(2) > MAX_LENGTH:
            raise ValueError("full")
        self.memory = torch.cat([self.memory[:, :, : self.length], new], dim=2)
        self.length += new.size(2)
        return self.memory


@MISTAKES.add("All caches share one memory; make it in the constructor.")
class Shared(Slices):
    memory = torch.zeros(BATCH, HEADS, MAX_LENGTH, HEAD_DIM)

    def __init__(self, *sizes):
        self.length = 0


@MISTAKES.add(
    "The first chunk itself is kept, without a copy, so later changes of it reach the cache; and "
    "torch.cat copies all tokens."
)
class KeptByName(Concatenated):
    def append(self, new):
        if self.length:
            return super().append(new)
        self.memory, self.length = new, new.size(2)
        return self.memory


@MISTAKES.add(
    "The error of torch is awaited. A slice of no rows takes one token without an error, so a full "
    "cache takes it, too, and counts it; compare the lengths yourself."
)
class ErrorAwaited(Slices):
    def append(self, new):
        try:
            self.memory[:, :, self.length : self.length + new.size(2)] = new
        except RuntimeError as error:
            raise ValueError("full") from error
        self.length += new.size(2)
        return self.memory[:, :, : self.length]


@MISTAKES.add("Nothing is checked while the cache is empty; the first chunk may be too long, too.")
class FirstUnchecked(Slices):
    def append(self, new):
        return super().append(new if self.length else new[:, :, :MAX_LENGTH])


MISTAKES.add("Pass the class, not an instance.")(Slices(BATCH, HEADS, MAX_LENGTH, HEAD_DIM))

EXERCISE = Exercise(
    name="append",
    answer="RepairedCache",
    title="A cache that writes in the wrong place",
    kind="Repair",
    points=3,
    difficulty=3,
    minutes=15,
    needs="sections 'The function' and 'Where it breaks' of chapter 4",
    judge=Facts(facts, NAMES),
    hints=(
        "Append twice on paper. Where do the second tokens have to stand, and how many rows are filled?",
        "The new tokens go to rows length to length + n. Check that they fit before anything changes.",
        "end = self.length + n; if end > self.memory.size(2): raise ValueError(...); "
        "self.memory[:, :, self.length : end] = new; self.length = end; return self.memory[:, :, :end]",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
