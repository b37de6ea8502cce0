"""Whose question does each head ask, and whose keys does it meet?

Weights tell both, where scores are products: their logarithms are scores, but for a constant of
each query. Those of every query head with the keys of every KV head are tried; the products that
fit, but for one factor, are the head's.
"""

from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import plain

OTHER_ORDER = "ask the questions of query heads"
FITS = 1e-3  # of what is to be explained, squared
LEAST = 1e-4  # float32 has not kept the logarithm of a smaller weight


def of_heads(query: Any, key: Any, right: Tensor, seen: Tensor) -> str:
    """Which heads ask and meet others than they should.

    Args:
        query, key: (b, h, n, d) and (b, g, m, d) or (b, m, d); g divides h.
        right, seen: weights (b, h, n, m), of which the right ones come from products of the two.
    """
    if not (plain(query) and plain(key)) or query.dim() != 4 or right.dim() != 4:
        return ""
    key = key if key.dim() == 4 else key[:, None]
    products = _products(query, key)
    if products is None or products.shape[2:] != (right.size(0), *right.shape[2:]):
        return ""
    h = query.size(1)
    reads = [k * key.size(1) // h for k in range(h)]
    own = list(zip(range(h), reads, strict=True))
    should = [_asked(products, right[:, k], *own[k]) for k in range(h)]
    found = [_asked(products, seen[:, k], *own[k], right[:, k]) for k in range(h)]
    if should != own or None in found:
        return ""
    asked, met = map(list, zip(*found, strict=True))
    if sorted(asked) == list(range(h)):  # whose question it is, not where it stands
        met = [met[asked.index(k)] for k in range(h)]
    says = [
        "" if asked == list(range(h)) else
        f"Heads 0 to {h - 1} {OTHER_ORDER} {_listed(asked)}; head h asks that of query head h.",
        whose(met, reads, "Query", "read", key.size(1) == h),
    ]  # fmt: skip
    return " ".join(filter(None, says))


def whose(found: list[int], right: list[int], which: str, what: str, own: bool) -> str:
    """``Query heads 0 to 5 read KV heads ...; they should read ...``, or '' where they do.

    Args:
        found, right: the KV head of each head.
        which: "Query" or "Output" heads.
        what: they do.
        own: does each head have keys and values of its own?
    """
    if found == right:
        return ""
    of = "heads" if own else "KV heads"
    return (
        f"{which} heads 0 to {len(right) - 1} {what} {of} {_listed(found)}; they should {what} "
        f"{_listed(right)}."
    )


def mixed_heads(maps: Tensor, count: int) -> list[int] | None:
    """Whose values each head mixes; None where those of several, or of none.

    Args:
        maps: (b, h, n, count * m), in which each KV head has columns of its own.
        count: of KV heads.
    """
    used = used_heads(maps, count)
    return used.int().argmax(1).tolist() if bool((used.sum(1) == 1).all()) else None


def used_heads(maps: Tensor, count: int) -> Tensor:
    """(heads, KV heads): does a head mix values of a KV head?"""
    return maps.unflatten(-1, (count, -1)).abs().amax((0, 2, 4)) > LEAST


def _listed(numbers: list) -> str:
    return ", ".join(map(str, numbers))


def _products(query: Tensor, key: Tensor) -> Tensor | None:
    """All products (query head, KV head, b, n, m), scaled; None for other shapes."""
    fit = len(query) == len(key) and query.size(-1) == key.size(-1)
    if not fit or query.size(1) % key.size(1):
        return None
    scaled = query.double() / query.size(-1) ** 0.5
    return torch.einsum("bhnd,bgmd->hgbnm", scaled, key.double())


def _asked(
    products: Tensor, weights: Tensor, own: int, read: int, among: Tensor | None = None
) -> tuple[int, int] | None:
    """Whose question and whose keys make these weights but for one factor; first the right ones."""
    there = torch.minimum(weights, weights if among is None else among) > LEAST
    logs = centred(weights.clamp(min=LEAST).log(), there)
    scores = centred(products, there)
    factor = (logs * scores).sum((-3, -2, -1)) / scores.square().sum((-3, -2, -1)).clamp(min=1e-30)
    off = (logs - factor[..., None, None, None] * scores).square().sum((-3, -2, -1))
    fits = (off <= FITS * logs.square().sum()) & (factor.abs() > 1e-3)
    pairs = [(asks, met) for asks, met in fits.nonzero().tolist()]
    return min(pairs, key=lambda x: (x != (own, read), x[0] != own, x[1] != read), default=None)


def centred(x: Tensor, there: Tensor) -> Tensor:
    """Less the mean of its row, where it is there; 0 elsewhere."""
    mean = (x * there).sum(-1, keepdim=True) / there.sum(-1, keepdim=True).clamp(min=1)
    return (x - mean) * there
