"""Feeds caches with numbered tokens, and tells which of them come back, and at which positions."""

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

    def told(self, found: Any) -> str | Raised:
        """``position:token`` of every slot, by position; ``?`` is no token that was ever given."""
        if isinstance(found, Raised):
            return found
        if not isinstance(found, tuple | list) or len(found) != 2 or not plain(found[0]):
            return "no pair (tokens, positions) is returned"
        tokens, at = found[0], run(lambda: [index(x) for x in found[1]])
        if tokens.dim() != 4 or tokens[:, :, :1].shape != self.pool[:, :, :1].shape:
            return f"the tokens have the shape {tuple(tokens.shape)}"
        if isinstance(at, Raised) or len(at) != tokens.size(2):
            return f"no whole numbers, one for each of {tokens.size(2)} tokens, as positions"
        same = (self.pool[:, :, :, None] == tokens[:, :, None]).all(-1).flatten(0, 1).all(0)
        names = [str(int(x.int().argmax())) if x.any() else "?" for x in same.T]
        return " ".join(f"{p}:{name}" for p, name in sorted(zip(at, names, strict=True)))

    def append(self, cache: Any, first: int, n: int) -> str | Raised:
        """What comes back after tokens first to first + n - 1."""
        new = self.tokens(first, n)
        told = self.told(run(cache.append, new))
        kept = torch.equal(new, self.tokens(first, n))
        return told if kept else "the new tokens are changed in place"


class Rows(Feed):
    """Caches, and what they return: the numbers of the tokens, row by row."""

    def told(self, found: Any) -> str:
        if not plain(found):
            kind = "None (is `return` missing?)" if found is None else type(found).__name__
            return f"raised {found.kind}" if isinstance(found, Raised) else kind
        if not found.numel() or found[..., :1, :].shape != self.tokens(0).shape:
            return f"shape {tuple(found.shape)}"
        same = (self.pool[:, :, :, None] == found[:, :, None]).all(-1)  # sample, head, token, row
        rows = zip(found.unbind(2), same.unbind(-1), strict=True)
        return " ".join(self._token(x, there) for x, there in rows)

    def _token(self, row: torch.Tensor, there: torch.Tensor) -> str:
        """The token that a row is; or of which it has a sample or a head, or which it nearly is."""
        near = (self.pool - row[:, :, None]).abs() < 0.01 + 0.01 * self.pool.abs()
        for alike, kind in (
            (there.flatten(0, 1).all(0), "{}"),
            (there[0].all(0), "sample 0 of {}"),
            (there[:, 0].all(0), "head 0 of {}"),
            (near.all(-1).flatten(0, 1).all(0), "about {}"),
        ):
            if alike.any():
                return kind.format(int(alike.int().argmax()))
        return "?"


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
    says = [_misplaced(p, t) for p, t in found if p != t]
    tokens = {t for _, t in found}
    says += [f"token {t} is missing" for _, t in after if t not in tokens]
    says += [f"token {t} is still there" for p, t in found if p == t and [p, t] not in after]
    return f"It does not hold that {what}: {', '.join(says[:3])}."


def _misplaced(position: str, token: str) -> str:
    if token == "?":
        return f"position {position} has a token that was never given"
    if token == str(ZEROS):
        return f"position {position} has zeros (token {ZEROS}, or a slot that was never written to)"
    return f"token {token} is returned as position {position}"
