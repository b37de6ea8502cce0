"""Feeds caches with numbered tokens, and tells which of them come back, and at which positions."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import index
from typing import Any

import torch

from attncourse.grading.allocations import Recorder
from attncourse.grading.compare import Raised, plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.inputs import seeded
from attncourse.grading.judges import Facts
from attncourse.grading.observe import run
from attncourse.grading.trained import up_to_wrong

ZEROS = 1  # the token that is all zeros
ONE = "every call returns a slice of one memory; torch.cat, clone, roll and an index copy"
SPOILT = "a tensor that changes after it was appended changes nothing"
SHOULD = "; it should be "


class Feed:
    """Caches of a window, and numbered tokens for them.

    Args:
        answer: the class of the caches, made of (batch, heads, window, head_dim).
        window: of most of them.
        seed: of sizes and numbers.
        spoil: overwrite what was appended right after its call.
    """

    def __init__(self, answer: Callable, window: int, seed: int, spoil: bool = False):
        self.given: list[tuple[torch.Tensor, int]] = []
        self.spoil = spoil
        b, h, d = (2 + torch.randperm(6, generator=seeded(seed, "sizes"))[:3]).tolist()
        self.window, self.new = window, lambda window=window: answer(b, h, window, d)
        self.pool = torch.randn(b, h, 6 * window, d, generator=seeded(seed, "tokens"))
        self.pool[:, :, ZEROS] = 0.0  # a token may be all zeros

    def tokens(self, first: int, n: int = 1) -> torch.Tensor:
        return self.pool[:, :, first : first + n].clone()

    def names(self, found: Any) -> list[str] | str:
        """The number of each token, ``?`` for one that was never given; or what comes instead."""
        if not plain(found):
            return "None (look for `return`)" if found is None else f"a {type(found).__name__}"
        b, h, _, d = self.pool.shape
        if found.dim() != 4 or (*found.shape[:2], found.size(3)) != (b, h, d):
            return f"shape {tuple(found.shape)} instead of ({b}, {h}, tokens, {d})"
        pair = self.pool[:, :, :, None].double(), found[:, :, None].double().cpu()
        near, same = torch.isclose(*pair, rtol=0.01), pair[0] == pair[1]
        near, same = (x.all(-1).flatten(0, 1).all(0).T for x in (near, same))
        return [
            f"{'~' * (not x.any())}{int((x | y).int().argmax())}" if y.any() or x.any() else "?"
            for x, y in zip(same, near, strict=True)
        ]

    def told(self, found: Any) -> str | Raised:
        """``position:token`` of every slot of (tokens, positions), by position."""
        if isinstance(found, Raised):
            return found
        if not isinstance(found, tuple | list) or len(found) != 2:
            return "no pair (tokens, positions) is returned"
        names, at = self.names(found[0]), run(lambda: [index(x) for x in found[1]])
        if isinstance(names, str):
            return f"in the place of the tokens: {names}"
        if isinstance(at, Raised) or len(at) != len(names):
            return f"no whole numbers, one for each of {len(names)} tokens, as positions"
        slots = sorted(zip(at, names, strict=True))
        return " ".join(f"{p}:{name}" for p, name in slots) or "no token"

    def give(self, cache: Any, first: int, n: int = 1) -> Any:
        """What a call with tokens first to first + n - 1 returns."""
        new = self.tokens(first, n)
        self.given.append((new, first))
        try:
            return cache.append(new)
        finally:
            if self.spoil:
                new.fill_(-1.0)

    def append(self, cache: Any, first: int, n: int = 1) -> str | Raised:
        """What comes back after tokens first to first + n - 1."""
        return self.told(run(self.give, cache, first, n))

    def one_memory(self, cache: Any, results: list, first: int, n: int = 1) -> bool | str:
        """True where what is written into a result appears in those of the next and earlier calls.

        Args:
            results: the tensors that earlier calls returned.
            first, n: the tokens of the next call.
        """
        told = "no; what is written into the result of a call does not appear in"
        results[-1][:, :, :1] = self.tokens(5)
        last = self.give(cache, first, n)
        last = last[0] if isinstance(last, tuple | list) else last
        if self.names(last)[:1] != ["5"]:
            return f"{told} the next one"
        last[:, :, :1] = self.tokens(4)
        return all(self.names(x)[:1] == ["4"] for x in results) or f"{told} earlier ones"

    def kept(self) -> bool | str:
        """True where all that was appended is as it was."""
        same = all(torch.equal(x, self.tokens(first, x.size(2))) for x, first in self.given)
        return same or self.spoil or "a call changes it"


class Rows(Feed):
    """Caches that return tokens alone."""

    def told(self, found: Any) -> str:
        """The numbers of the tokens, one after the other; or an error by its kind."""
        names = found.kind if isinstance(found, Raised) else self.names(found)
        if isinstance(names, str):
            return names
        return " ".join("zeros" if x == str(ZEROS) else x for x in names) or "no token"


def judged(steps: Callable[..., Iterator], right: Callable) -> Facts:
    """Judges a cache by what it shows beside the right one, up to a wrong fact.

    ``steps(answer, seed, spoil=False)`` yields facts and what is seen of them. The last fact is
    that nothing changes with ``spoil``, which overwrites each tensor after it was appended.
    """
    names = *dict(steps(right, 0)), SPOILT

    @lru_cache(maxsize=8)
    def shown(seed: int) -> list:
        return [seen for _, seen in steps(right, seed)]

    def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        for (what, seen), asks in zip(steps(answer, seed), shown(seed), strict=True):
            yield what, seen == asks or _compared(seen, asks)
        both = zip(steps(answer, seed, spoil=True), shown(seed), strict=False)
        told = (f"{what}: {seen}" for (what, seen), asks in both if seen not in (asks, True))
        other = next(told, "")
        overwritten = "no; with tensors that are overwritten after their call"
        yield SPOILT, not other or f"{overwritten}, {other}"

    return Facts(lambda *asked: up_to_wrong(names, facts(*asked)), names)


def _compared(seen: Any, right: Any) -> str | Raised:
    """What is seen and, where it is no error and no sentence, what should be."""
    if isinstance(seen, Raised) or right is True:
        return seen
    marks = {":": "position:token", "?": "? is none of the tokens", "~": "~ is rounded"}
    words = ", ".join(says for mark, says in marks.items() if mark in f"{seen}{right}")
    return f"{seen}{SHOULD}{right}{f' ({words})' if words else ''}"


class WritesTwice(Recorder):
    """Does an index name a place twice where it is written? Which number stays is then open."""

    found = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.partition(".")[0].strip("_")
        if name in ("scatter", "index_copy"):
            dim = args[1] if name == "scatter" else 0
            self.found |= bool((args[2].sort(dim).values.diff(dim=dim) == 0).any())
        elif name in ("index_put", "index_put_impl"):
            index = torch.broadcast_tensors(*(x for x in args[1] if x is not None))
            if index[0].dtype != torch.bool:
                rows = torch.stack(index, -1).flatten(0, -2)
                self.found |= len(rows.unique(dim=0)) < len(rows)
        return func(*args, **(kwargs or {}))


def other_tokens(asked: Asked) -> str:
    """Which tokens are at which positions, and should not; '' where something else comes back."""
    what = asked.differs[0]
    told, _, right = str(asked.seen[what]).partition(SHOULD)
    if ":" not in told or not right:
        return ""
    pairs = zip(right.partition(" (")[0].split("; "), told.split("; "), strict=False)
    after, found = (
        [x.split(":") for x in side.split()] for side in next(x for x in pairs if x[0] != x[1])
    )
    tokens = [t for _, t in found]
    names = {t: f"token {t[1:]}, rounded" if t[0] == "~" else f"token {t}" for t in tokens}
    names |= {"?": "a token that was never given", str(ZEROS): "zeros"}
    says = [f"position {p} has {names[t]}" for p, t in found if [p, t] not in after]
    says += [f"token {t} is missing" for _, t in after if t not in tokens]
    return f"In the test '{what}': {', '.join(says[:3])}."
