"""Feeds caches with numbered tokens, and tells which of them come back, and at which positions."""

from collections import Counter
from collections.abc import Callable
from operator import index
from typing import Any

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import run

ZEROS = 1  # the token that is all zeros


class Feed:
    """Caches of a window, and numbered tokens for them.

    Args:
        answer: the class of the caches, made of (batch, heads, window, head_dim).
        window: of most of them.
        seed: of sizes and numbers.
    """

    def __init__(self, answer: Callable, window: int, seed: int):
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
            moved = found.dim() == 4 and Counter(found.shape) >= Counter((b, h, d))
            what = "axes in another order," if moved else "shape"
            return f"{what} {tuple(found.shape)} instead of ({b}, {h}, tokens, {d})"
        same = (self.pool[:, :, :, None] == found[:, :, None]).all(-1).flatten(0, 1).all(0)
        return [str(int(x.int().argmax())) if x.any() else "?" for x in same.T]

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

    def append(self, cache: Any, first: int, n: int) -> str | Raised:
        """What comes back after tokens first to first + n - 1."""
        new = self.tokens(first, n)
        told = self.told(run(cache.append, new))
        kept = torch.equal(new, self.tokens(first, n))
        return told if kept else "the new tokens are changed in place"


class Rows(Feed):
    """Caches that return tokens alone."""

    def told(self, found: Any) -> str:
        """The numbers of the tokens, one after the other; or an error by its kind."""
        names = found.kind if isinstance(found, Raised) else self.names(found)
        if isinstance(names, str):
            return names
        return " ".join("zeros" if x == str(ZEROS) else x for x in names) or "no token"


def other_tokens(what: str, right: str, seen: Any) -> str:
    """Which tokens and positions come back, and should not; '' where something else comes back.

    Args:
        what: should hold.
        right, seen: as `Feed.told` has them, one behind the other.
    """
    if not isinstance(seen, str) or ":" not in seen:
        return ""
    pairs = zip(right.split("; "), seen.split("; "), strict=False)
    after, found = (
        [x.split(":") for x in side.split()] for side in next(x for x in pairs if x[0] != x[1])
    )
    tokens = {t for _, t in found}
    says = [f"{len(found)} tokens come back instead of {len(after)}"] * (len(found) != len(after))
    says += [
        f"token {t} is returned as position {p}" for p, t in found if t not in (p, "?", str(ZEROS))
    ]
    says += [f"position {p} has a token that was never given" for p, t in found if t == "?"]
    says += [f"token {t} is missing" for _, t in after if t not in tokens]
    says += [f"token {t} is still there" for p, t in found if p == t and [p, t] not in after]
    says = says or [f"position {p} has zeros" for p, t in found if p != t]
    return f"In the test '{what}': {', '.join([*dict.fromkeys(says)][:3])}."
