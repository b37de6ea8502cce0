"""Exercise append: a cache that writes in the wrong place, repaired."""

from functools import lru_cache
from operator import index

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistake, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import run


class Feeder:
    """Makes caches, feeds them tokens and reads what they return; the seed draws sizes and numbers.

    Args:
        beyond: how many more tokens than 8 to 11 its caches hold; each number draws its own sizes.
    """

    def __init__(self, answer, seed: int, beyond: int = 0):
        b, h, d = (2 + torch.randperm(6, generator=seeded(seed, "sizes", beyond))[:3]).tolist()
        self.most = m = 8 + seed % 4 + beyond
        self.new = lambda: answer(b, h, m, d)
        drawn = [torch.randn(b, h, d, generator=seeded(seed, token)) for token in range(3 * m)]
        self.pool = torch.stack(drawn, dim=2)
        self.pool[:, :, 3] = 0.0  # a token may be all zeros

    def tokens(self, first: int, n: int) -> torch.Tensor:
        return self.pool[:, :, first : first + n].clone()

    def read(self, found) -> str:
        """The numbers of the tokens that a result holds."""
        if not plain(found):
            return f"raised {found.kind}" if isinstance(found, Raised) else type(found).__name__
        if not found.numel() or found[..., :1, :].shape != self.tokens(1, 1).shape:
            return f"shape {tuple(found.shape)}"
        same = (self.pool[:, :, :, None] == found[:, :, None]).all(-1)
        tokens = same.flatten(0, 1).all(0).T
        return " ".join(
            str(int(x.int().argmax())) if x.any() else self._like(found[:, :, row], same[..., row])
            for row, x in enumerate(tokens)
        )

    def _like(self, found, same) -> str:
        """What can be said of a row that is no token: which token it is in part, or nearly."""
        near = (self.pool - found[:, :, None]).abs() < 0.01 + 0.01 * self.pool.abs()
        for alike, kind in (
            (same[0].all(0), "sample 0 of {}"),
            (same[:, 0].all(0), "head 0 of {}"),
            (near.all(-1).flatten(0, 1).all(0), "about {}"),
        ):
            if alike.any():
                return kind.format(int(alike.int().argmax()))
        return "?"

    def append(self, cache, first: int, n: int) -> str:
        return self.read(run(cache.append, self.tokens(first, n)))

    def by_one(self) -> str:
        """What a new cache shows that is filled token by token, with one too many."""
        cache = self.new()
        full = [run(cache.append, self.tokens(token, 1)) for token in range(self.most + 1)]
        return "; ".join(map(self.read, full[-2:]))


def steps(answer, seed: int):
    """What is seen step by step."""
    feed = Feeder(answer, seed)
    most, cache, other = feed.most, feed.new(), feed.new()

    def length():
        return run(lambda: index(cache.length))

    made = [cache.append(feed.tokens(at, n)) for at, n in ((1, 2), (3, 1), (4, most - 4))]
    yield "every call returns all tokens so far", "; ".join(map(feed.read, made))
    yield "length is the number of tokens", length()
    yield "a chunk that does not fit raises a ValueError", feed.append(cache, most, 2)
    yield "after that the cache is as before", length()
    yield "a chunk that fills the cache to its end fits", feed.append(cache, most, 1)
    yield "a full cache takes no further token", feed.append(cache, most + 1, 1)
    yield "a first chunk that does not fit is refused", feed.append(feed.new(), 1, most + 1)
    given = feed.tokens(2, 2)
    others = [other.append(given), other.append(feed.tokens(4, 1))]
    yield "what is appended stays as it was", bool(torch.equal(given, feed.tokens(2, 2)))
    yield "two caches have nothing in common", "; ".join(map(feed.read, made))
    given.fill_(-1.0)
    yield "a tensor that changes after it was appended changes nothing", feed.append(other, 5, 1)
    others[1][:, :, :1] = feed.tokens(9, 1)
    seen = feed.read(others[0]), feed.append(other, 6, 1)
    yield "what is returned is a view of one memory, in every call", "; ".join(seen)
    yield "a cache of other sizes does the same, token by token", Feeder(answer, seed, 5).by_one()


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
    return [seen for _, seen in steps(RIGHT, seed)]


def refusing(error=ValueError, first=lambda cache, new, room: None):
    """Raise the error, after something else was done first."""

    def full(cache, new, room):
        first(cache, new, room)
        raise error(f"{new.size(2)} tokens, but room for {room}")

    return full


REFUSED = refusing()


def repaired(
    memory=torch.zeros, zero=0, fits=lambda start, n, most: start + n <= most, full=REFUSED,
    at=lambda start, n, most: start, write=lambda new: new, count=lambda cache, start, n: start + n,
    returned=lambda cache, new, end: cache.memory[:, :, :end],
):  # fmt: skip
    """The repaired cache; a mistake replaces a step."""

    class RepairedCache:
        def __init__(self, *sizes):
            self.memory, self.length = memory(*sizes), zero

        def append(self, new):
            start, most = self.length, self.memory.size(2)
            if not fits(start, new.size(2), most):
                new = full(self, new, most - start)
            n = new.size(2)
            here = at(start, n, most)
            self.memory[:, :, here : here + n] = write(new)
            self.length = count(self, start, n)
            return returned(self, new, start + n)

    return RepairedCache


RIGHT = repaired()
ACCEPTED = Accepted(slices=RIGHT, length_is_a_tensor=repaired(zero=torch.tensor(0)))


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
class IndexCopy(RIGHT):
    def append(self, new):
        at = torch.arange(new.size(2)) + self.length
        if int(at[-1]) >= self.memory.size(2):
            raise type("CacheFull", (ValueError,), {})
        self.memory.index_copy_(2, at, new)
        self.length = int(at[-1]) + 1
        return self.memory[..., : self.length, :]


def joined(cache, new, end):
    cache.kept = torch.cat([cache.kept, new], 2) if end > new.size(2) else new
    return cache.kept


MISTAKES = Mistakes(Mistake(says, repaired(**step)) for says, step in (
    ("Every chunk is written at the front, over what was there; write behind it.", {"at": lambda *_: 0}),
    ("The tokens are written at the end of the memory; write behind the last one.",
     {"at": lambda start, n, most: most - n}),
    ("The new tokens are written in the opposite order.", {"write": lambda new: new.flip(2)}),
    ("All of the memory is returned, with rows that nobody wrote.", {"returned": lambda cache, *_: cache.memory}),
    ("Only the new tokens are returned; attention needs all of them.",
     {"returned": lambda cache, new, end: cache.memory[:, :, end - new.size(2) : end]}),
    ("What was given is returned; return all tokens, from the memory.", {"returned": lambda cache, new, end: new}),
    ("The new tokens are missing in what is returned; count them first.",
     {"returned": lambda cache, new, end: cache.memory[:, :, : end - new.size(2)]}),
    ("All tokens are copied in every call, by torch.cat or clone; write into the memory that is there.",
     {"returned": lambda cache, new, end: cache.memory[:, :, :end].clone()}),
    ("The first chunk itself is kept, without a copy, so later changes of it reach the cache; and torch.cat "
     "copies all tokens.", {"returned": joined}),
    ("length does not grow, so every chunk is written over the last one.",
     {"count": lambda cache, start, n: start}),
    ("length grows by 1 in every call; it must grow by the number of new tokens.",
     {"count": lambda cache, start, n: start + 1}),
    ("length becomes the number of the longest chunk; add up all of them.",
     {"count": lambda cache, start, n: max(start, n)}),
    ("The tokens are returned in the opposite order.", {"returned": lambda cache, new, end: cache.memory[:, :, :end].flip(2)}),
    ("The first token is missing in what is returned; rows count from 0.",
     {"returned": lambda cache, new, end: cache.memory[:, :, 1:end]}),
    ("The last token is missing in what is returned; a slice ends before its end.",
     {"returned": lambda cache, new, end: cache.memory[:, :, : end - 1]}),
    ("A row too many is returned, which nobody wrote; a slice ends before its end.",
     {"returned": lambda cache, new, end: cache.memory[:, :, : end + 1]}),
    ("The axes are returned in another order; return (batch, heads, length, head_dim).",
     {"returned": lambda cache, new, end: cache.memory[:, :, :end].transpose(1, 2)}),
    ("Nothing is returned, or None; is `return` missing?", {"returned": lambda *_: None}),
    ("The tokens come in a tuple with something else; return the tensor alone.",
     {"returned": lambda cache, new, end: (cache.memory[:, :, :end], end)}),
    ("The first token of a chunk is written for all of them; write the whole chunk.", {"write": lambda new: new[:, :, :1]}),
    ("The last token of a chunk is written for all of them; write the whole chunk.", {"write": lambda new: new[:, :, -1:]}),
    ("Head 0 is written for all heads.", {"write": lambda new: new[:, :1]}),
    ("Sample 0 is written for all samples.", {"write": lambda new: new[:1]}),
    ("length becomes the number of new tokens; add it to what is there.", {"count": lambda cache, start, n: n}),
    ("length is counted in the rows that are not 0; a token may be 0. Add up what is appended.",
     {"count": lambda cache, start, n: int((cache.memory != 0).any(-1).any(1).any(0).sum()),
      "returned": lambda cache, *_: cache.memory[:, :, : cache.length]}),
    ("length is counted in the rows that are not 0; a token may be all zeros. Add up what is appended.",
     {"count": lambda cache, start, n: int((cache.memory != 0).any(-1).any(1).any(0).sum())}),
    ("The memory does not keep float32; its numbers are rounded.",
     {"memory": lambda *sizes: torch.zeros(*sizes, dtype=torch.bfloat16)}),
    ("Tokens that do not fit are dropped in silence; raise a ValueError.",
     {"full": lambda cache, new, room: new[:, :, :room]}),
    ("Tokens that do not fit raise no ValueError: torch complains with a RuntimeError, or not at all. Compare "
     "the lengths before anything is written.", {"fits": lambda *_: True}),
    ("A full memory is noticed, but not a chunk that is too long for what is left. Count its tokens, too.",
     {"fits": lambda start, n, most: start < most}),
    ("A chunk is compared with the whole memory, not with what is left of it.", {"fits": lambda start, n, most: n <= most}),
    ("Nothing is checked while the cache is empty; the first chunk may be too long, too.",
     {"fits": lambda start, n, most: not start or start + n <= most}),
    ("Only an error of torch is awaited; a slice of no rows takes one token without one. Compare the lengths.",
     {"fits": lambda start, n, most: start + n <= most or start == most and n == 1}),
    ("A chunk that just fits is refused; all of max_length can be used.",
     {"fits": lambda start, n, most: start + n < most}),
    *((f"A full cache must raise ValueError, not {error.__name__}.", {"full": refusing(error)})
      for error in (IndexError, AssertionError, RuntimeError)),
    ("The tokens that fit were written and counted before the error; check the whole chunk first.",
     {"full": refusing(first=lambda cache, new, room: cache.append(new[:, :, :room]))}),
    ("length has grown although the chunk was refused; check first, then count.",
     {"full": refusing(first=lambda cache, new, room: vars(cache).update(length=cache.length + new.size(2)))}),
    ("The cache is emptied when tokens do not fit; after the error it is as before.",
     {"full": refusing(first=lambda cache, new, room: vars(cache).update(length=0))}),
    ("All caches share one memory; make it in the constructor.", {"memory": lru_cache(maxsize=1)(torch.zeros)}),
    ("This is the code as found: written at the front, returned with rows that nobody wrote.",
     {"at": lambda *_: 0, "fits": lambda *_: True, "returned": lambda cache, *_: cache.memory}),
))  # fmt: skip

EXERCISE = Exercise(
    name="append",
    answer="RepairedCache",
    judge=Facts(facts, tuple(dict(steps(RIGHT, 0)))),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
