"""Exercise append: a cache that writes in the wrong place, repaired."""

from functools import lru_cache

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.observe import run

NAMES = (
    "chunks of 2, 1 and more tokens: every call returns all tokens so far",
    "what is returned is a view of one memory, in every call",
    "length is the number of tokens",
    "a chunk that does not fit raises a ValueError",
    "after that the cache is as before",
    "a chunk that fills the cache to its end fits",
    "a full cache takes no further token, but raises a ValueError",
    "a first chunk that does not fit raises a ValueError",
    "a first chunk that fills the cache fits",
    "a tensor that changes after it was appended changes nothing",
    "two caches have nothing in common",
)


class Feeder:
    """Makes caches, feeds them tokens and reads what they return; the seed draws sizes and numbers."""

    def __init__(self, answer, seed: int):
        g = torch.Generator().manual_seed(seed)
        b, h, d = (2 + torch.randperm(6, generator=g)[:3]).tolist()
        self.most = m = 8 + seed % 4
        self.new = lambda: answer(b, h, m, d)
        self.pool = torch.randn(b, h, 3 * m, d, generator=g)
        self.pool[:, :, 2] = 0.0  # a token may be all zeros

    def tokens(self, first: int, n: int) -> Tensor:
        """Tokens number first, first + 1, ..., from 1 on."""
        return self.pool[:, :, first - 1 : first - 1 + n].clone()

    def read(self, found) -> str:
        """The numbers of the tokens that a result holds; '?' is none of them."""
        if not isinstance(found, Tensor):
            raised = isinstance(found, Raised)
            return f"raised {found.kind}" if raised else f"a {type(found).__name__}"
        b, h, _, d = self.pool.shape
        if not plain(found) or not found.numel() or found.shape != (b, h, found.size(-2), d):
            return f"shape {tuple(found.shape)}"
        rows = found.detach().to(self.pool.dtype)[:, :, None]
        same = torch.isclose(self.pool[:, :, :, None], rows).all(-1).flatten(0, 1).all(0)
        return " ".join(str(1 + int(x.int().argmax())) if x.any() else "?" for x in same.T)

    def append(self, cache, first: int, n: int) -> str:
        return self.read(run(cache.append, self.tokens(first, n)))


def seen_and_right(answer, seed: int):
    """What was seen and what is right, for each of the names."""
    feed, refused = Feeder(answer, seed), "raised ValueError"
    most, cache = feed.most, feed.new()

    def numbered(last):
        return " ".join(str(1 + t) for t in range(last))

    def length():
        found = getattr(cache, "length", "none")
        return found.item() if isinstance(found, Tensor) and found.numel() == 1 else found

    made = [cache.append(feed.tokens(at, n)) for at, n in ((1, 2), (3, 1), (4, most - 4))]
    yield "; ".join(map(feed.read, made)), "; ".join(map(numbered, (2, 3, most - 1)))
    yield one_memory(feed, made), True
    yield length(), most - 1
    yield feed.append(cache, most, 2), refused
    yield f"length {length()}", f"length {most - 1}"
    yield feed.append(cache, most, 1), numbered(most)
    yield feed.append(cache, most + 1, 1), refused
    yield feed.append(feed.new(), 1, most + 1), refused
    yield feed.append(feed.new(), 1, most), numbered(most)
    one, two, given = feed.new(), feed.new(), feed.tokens(1, 2)
    one.append(given)
    given.fill_(-1.0)
    yield feed.append(one, 3, 1) != "? ? 3" or "changed", True
    kept = two.append(feed.tokens(1, 2))
    before = feed.read(kept)
    feed.append(feed.new(), 5, 2)
    yield feed.read(kept) == before or "one cache overwrites the other", True


def one_memory(feed: Feeder, made: list) -> bool:
    """Do all results start at one address, and does a number written into one show in the next?"""
    if not all(map(plain, made)) or len({x.untyped_storage().data_ptr() for x in made}) > 1:
        return False
    cache = feed.new()
    kept = cache.append(feed.tokens(1, 2))
    kept[:, :, :1] = feed.tokens(9, 1)
    return torch.equal(cache.append(feed.tokens(3, 1))[:, :, :1], kept[:, :, :1])


def facts(answer, seed: int):
    for name, (seen, right) in zip(NAMES, seen_and_right(answer, seed), strict=True):
        yield name, bool(seen == right) or seen


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


def refusing(error=ValueError, first=lambda cache, new, room: None):
    """Raise the error, after something else was done first."""

    def full(cache, new, room):
        first(cache, new, room)
        raise error(f"{new.size(2)} tokens, but room for {room}")

    return full


REFUSED = refusing()


def repaired(
    memory=torch.zeros,
    fits=lambda end, most: end <= most,
    full=REFUSED,
    at=lambda start, n, most: start,
    write=lambda new: new,
    count=lambda cache, start, n: start + n,
    returned=lambda memory, start, end: memory[:, :, :end],
):
    """The repaired cache; a mistake replaces a step."""

    class RepairedCache(AsFound):
        def __init__(self, *sizes):
            self.memory, self.length = memory(*sizes), 0

        def append(self, new):
            start, most = self.length, self.memory.size(2)
            if not fits(start + new.size(2), most):
                new = full(self, new, most - start)
            n = new.size(2)
            here = at(start, n, most)
            self.memory[:, :, here : here + n] = write(new)
            self.length = count(self, start, n)
            return returned(self.memory, start, start + n)

    return RepairedCache


ACCEPTED = Accepted(slices=repaired())


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
class LengthIsATensor(repaired()):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.length = torch.tensor(0)


def not_zero(memory):
    return int((memory != 0).any(-1).any(1).any(0).sum())


MISTAKES = Mistakes()
for says, step in (
    ("Every chunk is written at the front, over the tokens that were there; write behind them.",
     {"at": lambda start, n, most: 0}),
    ("The tokens are written at the end of the memory; write behind the last one.", {"at": lambda start, n, most: most - n}),
    ("The new tokens are written in the opposite order.", {"write": lambda new: new.flip(2)}),
    ("All of the memory is returned, rows that nobody wrote included.", {"returned": lambda x, start, end: x}),
    ("Only the new tokens are returned; attention needs all of them.",
     {"returned": lambda x, start, end: x[:, :, start:end]}),
    ("The new tokens are missing in what is returned; count them first.",
     {"returned": lambda x, start, end: x[:, :, :start]}),
    ("All tokens are copied in every call, by torch.cat or clone; write into the memory that is there.",
     {"returned": lambda x, start, end: x[:, :, :end].clone()}),
    ("length does not grow, so every chunk is written over the last one.", {"count": lambda x, start, n: start}),
    ("length grows by 1 in every call; it must grow by the number of new tokens.", {"count": lambda x, start, n: start + 1}),
    ("length becomes the number of new tokens; add it to what is there.", {"count": lambda x, start, n: n}),
    ("length is counted in the rows that are not 0; a token may be 0. Add up what is appended.",
     {"count": lambda x, start, n: not_zero(x.memory), "returned": lambda x, start, end: x[:, :, : not_zero(x)]}),
    ("Tokens that do not fit are dropped in silence; raise a ValueError.",
     {"full": lambda cache, new, room: new[:, :, :room]}),
    ("Nothing checks whether the tokens fit: torch complains with a RuntimeError, or not at all; raise a "
     "ValueError before anything is written.", {"full": lambda cache, new, room: new}),
    ("A full cache must raise a ValueError, not a RuntimeError.", {"full": refusing(RuntimeError)}),
    ("A full cache must raise a ValueError, not an IndexError.", {"full": refusing(IndexError)}),
    ("A full cache must raise a ValueError; assert raises an AssertionError.", {"full": refusing(AssertionError)}),
    ("The tokens that fit were written and counted before the error; check the whole chunk first.",
     {"full": refusing(first=lambda cache, new, room: (
         cache.memory[:, :, cache.length :].copy_(new[:, :, :room]), setattr(cache, "length", cache.length + room)))}),
    ("length has grown although the chunk was refused; check first, then count.",
     {"full": refusing(first=lambda cache, new, room: setattr(cache, "length", cache.length + new.size(2)))}),
    ("A chunk that just fits is refused; all of max_length can be used.", {"fits": lambda end, most: end < most}),
    ("Nothing is checked while the cache is empty; the first chunk may be too long, too.",
     {"full": lambda cache, new, room: REFUSED(cache, new, room) if cache.length else new[:, :, :room]}),
    ("Nothing is checked while the cache is empty; the first chunk may be too long, too.",
     {"full": lambda cache, new, room: REFUSED(cache, new, room) if cache.length else new}),
    ("The error of torch is awaited. A slice of no rows takes one token without an error, so a full cache takes it, "
     "too, and counts it; compare the lengths yourself.",
     {"full": lambda cache, new, room: REFUSED(cache, new, room) if room or new.size(2) > 1 else new}),
    ("The numbers are changed on their way into the memory; keep them as they are, in float32.",
     {"memory": lambda *sizes: torch.zeros(sizes, dtype=torch.int64)}),
    ("All caches share one memory; make it in the constructor.", {"memory": lru_cache(maxsize=1)(torch.zeros)}),
):  # fmt: skip
    MISTAKES.add(says)(repaired(**step))


@MISTAKES.add(
    "The first chunk itself is kept, without a copy, so later changes of it reach the cache; and "
    "torch.cat copies all tokens."
)
class KeptByName(repaired()):
    def append(self, new):
        super().append(new)
        self.kept = torch.cat([self.kept, new], 2) if self.length > new.size(2) else new
        return self.kept


MISTAKES.add("Pass the class, not an instance.")(repaired()(2, 3, 7, 5))
MISTAKES.add(
    "This is the code as found: written at the front, returned with rows that nobody wrote."
)(AsFound)

EXERCISE = Exercise(
    name="append", answer="RepairedCache", title="A cache that writes in the wrong place",
    kind="Repair", points=3, difficulty=3, minutes=15,
    needs="sections 'The function' and 'Where it breaks' of chapter 4",
    judge=Facts(facts, NAMES), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Append twice on paper. Where do the second tokens have to stand, and how many rows are filled?",
        "The new tokens go to rows length to length + n. Check that they fit before anything changes.",
        "end = self.length + n; if end > self.memory.size(2): raise ValueError(...); "
        "self.memory[:, :, self.length : end] = new; self.length = end; return self.memory[:, :, :end]",
    ),
)  # fmt: skip
