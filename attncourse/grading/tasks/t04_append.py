"""Exercise 04.append: a cache that writes in the wrong place, repaired."""

import torch
from torch import Tensor

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.observe import Raised

BATCH, HEADS, MAX_LENGTH, HEAD_DIM = 2, 3, 7, 5
NAMES = (
    "chunks of 2, 1 and 3 tokens: every call returns all tokens so far",
    "what is returned is a view of one memory, in every call",
    "a chunk that fills the cache to its end fits",
    "a chunk that does not fit raises a ValueError",
    "after that the cache is as before",
    "a full cache takes no further token, but raises a ValueError",
    "a first chunk that does not fit raises a ValueError",
    "length is the number of tokens",
    "a tensor that changes after it was appended changes nothing",
    "two caches have nothing in common",
)


def tokens(first: int, n: int) -> Tensor:
    """n tokens whose numbers tell which token they are, which sample, head and feature."""
    marks = torch.arange(first, first + n).view(1, 1, n, 1) * 1000.0
    place = torch.arange(BATCH * HEADS * HEAD_DIM).view(BATCH, HEADS, 1, HEAD_DIM)
    return marks + place


def read(found) -> str:
    """The tokens that a result holds, by their numbers; '?' is none of them."""
    if not isinstance(found, Tensor) or found.dim() != 4:
        return (
            f"a {type(found).__name__}" if not isinstance(found, Tensor) else f"{found.dim()} axes"
        )
    if (*found.shape[:2], found.shape[3]) != (BATCH, HEADS, HEAD_DIM):
        return f"shape {tuple(found.shape)}"

    def name(row):
        mark = row.flatten()[0].item() / 1000
        known = 0 < mark < 100 and torch.allclose(row, tokens(int(mark), 1))
        return str(int(mark)) if known else "?"

    return " ".join(name(row) for row in found.detach().float().split(1, dim=2)) or "nothing"


def facts(answer, seed: int) -> dict:
    """Feed the cache and read what it returns."""
    first = 1 + seed % 3
    cache = answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM)
    seen = [cache.append(tokens(first + at, n)) for at, n in ((0, 2), (2, 1), (3, 3))]
    right = [" ".join(map(str, range(first, first + m))) for m in (2, 3, 6)]
    shown = [read(x) for x in seen]
    length = length_of(cache)
    results = [shown == right or "; ".join(shown), one_memory(seen)]
    results += at_the_end(cache, first)
    results.append(refusal(answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM), tokens(1, MAX_LENGTH + 1)))
    results.append(bool(length == 6) or f"{length} after 6 tokens")
    results += [kept_apart(answer), separate(answer)]
    return dict(zip(NAMES, results, strict=True))


def one_memory(seen):
    """True when all results start at the same address."""
    if not all(isinstance(x, Tensor) for x in seen):
        return "no tensors"
    return len({x.untyped_storage().data_ptr() for x in seen}) == 1 or "memory is taken anew"


def length_of(cache):
    """A number now: a tensor might be changed in place."""
    found = getattr(cache, "length", "none")
    return found.item() if isinstance(found, Tensor) and found.numel() == 1 else found


def refusal(cache, new: Tensor):
    """True when the cache raises a ValueError, else what it did."""
    tried = attempt(lambda: cache.append(new))
    told = f"raised {tried.kind}" if isinstance(tried, Raised) else read(tried)
    return told == "raised ValueError" or told


def at_the_end(cache, first: int) -> list:
    """Two tokens do not fit behind six of seven; one does, if the first try left no trace; then none."""
    refused = refusal(cache, tokens(20, 2))
    length = length_of(cache)
    filled = attempt(lambda: read(cache.append(tokens(first + 6, 1))))
    whole = " ".join(str(t) for t in range(first, first + 7))
    before = bool(length == 6) or f"length {length}"
    full = refusal(cache, tokens(30, 1))
    return [filled == whole or shorten(filled), refused, before, full]


def attempt(call):
    try:
        return call()
    except Exception as error:
        return Raised.by(error)


def shorten(found) -> str:
    return f"raised {found.kind}" if isinstance(found, Raised) else found


def kept_apart(answer):
    """Does the cache hold the tensor itself, so that later changes reach it?"""
    cache, given = answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM), tokens(1, 2)
    cache.append(given)
    given.fill_(-1.0)
    found = attempt(lambda: read(cache.append(tokens(3, 1))))
    return "changed" if shorten(found) == "? ? 3" else True


def separate(answer):
    one, other = (answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM) for _ in range(2))
    kept = one.append(tokens(1, 2))
    before = read(kept)
    other.append(tokens(11, 2))
    return read(kept) == before or "one cache overwrites the other"


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
    name="04.append",
    answer="RepairedCache",
    number=6,
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
