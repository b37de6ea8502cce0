"""The judge of append: feed a cache, and read what it returns."""

import torch
from torch import Tensor

from attncourse.grading.compare import Raised

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
    one = one_memory(seen)
    results = [shown == right or "; ".join(shown), written_through(answer) if one is True else one]
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


def written_through(answer):
    """True when a number that is written into one result shows in the next: no copy can do that."""
    cache = answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM)
    cache.append(tokens(1, 2))[:, :, :1] = tokens(90, 1)
    return read(cache.append(tokens(3, 1))) == "90 2 3" or "memory is taken anew"


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
    """What a call returns, or what it raises."""
    try:
        return call()
    except Exception as error:
        return Raised.by(error)


def shorten(found) -> str:
    """What was read, or the kind of the error."""
    return f"raised {found.kind}" if isinstance(found, Raised) else found


def kept_apart(answer):
    """Does the cache hold the tensor itself, so that later changes reach it?"""
    cache, given = answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM), tokens(1, 2)
    cache.append(given)
    given.fill_(-1.0)
    found = attempt(lambda: read(cache.append(tokens(3, 1))))
    return "changed" if shorten(found) == "? ? 3" else True


def separate(answer):
    """True when what one cache holds stays when another is written to."""
    one, other = (answer(BATCH, HEADS, MAX_LENGTH, HEAD_DIM) for _ in range(2))
    kept = one.append(tokens(1, 2))
    before = read(kept)
    other.append(tokens(11, 2))
    return read(kept) == before or "one cache overwrites the other"
