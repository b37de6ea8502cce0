"""The scores of a window as a band: their definition, the right answer in steps, and what people get wrong in it."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.recipe import Given, Recipe


def definition(query, key, left, right):
    """Score by score."""
    n, d = query.shape[-2:]
    nothing = torch.full(query.shape[:2], -math.inf, dtype=query.dtype)
    columns = [
        (query[:, :, i] * key[:, :, j]).sum(-1) / math.sqrt(d) if 0 <= j < n else nothing
        for i in range(n)
        for j in range(i - left, i + right + 1)
    ]
    return torch.stack(columns, -1).unflatten(-1, (n, -1))


def keys_of(i, c, left, right):
    """Which key stands in column c of row i."""
    return i - left + c


def given(query, key, left, right, at=keys_of, width=lambda left, right: left + 1 + right):
    """The keys of each row, (b, h, n, columns, d), are what is multiplied; `rest` tells which are none."""
    n, columns = query.size(2), width(left, right)
    j = at(torch.arange(n)[:, None], torch.arange(columns), left, right)
    visible, rest = (j >= 0) & (j < n), (query, key, left, right)
    return Given(query, key[:, :, j.clamp(0, n - 1)], key, visible, rest=rest)


RIGHT = Recipe(
    given, score=lambda x: (x.query[:, :, :, None] * x.key).sum(-1),
    normalize=lambda s: s, mix=lambda w, x: w, answer=lambda o, w, s, x: o,
)  # fmt: skip


def wide(query, key, left, right):
    """Right, out of the table of all pairs."""
    n = query.size(2)
    everything = F.pad(query @ key.mT / query.size(-1) ** 0.5, (left, right), value=-math.inf)
    j = torch.arange(n)[:, None] + torch.arange(left + 1 + right)
    return everything.gather(-1, j.expand(*query.shape[:2], -1, -1))


def row_of_all(query, key, left, right):
    """Right, and no table is ever there: but each query meets all keys."""
    padded = F.pad(key, (0, 0, left, right))
    j = torch.arange(query.size(2))[:, None] - left + torch.arange(left + 1 + right)
    rows = [
        (query[:, :, i : i + 1] @ padded.mT)[:, :, 0, i : i + left + 1 + right]
        for i in range(query.size(2))
    ]
    scores = torch.stack(rows, 2) / query.size(-1) ** 0.5
    return scores.masked_fill((j < 0) | (j >= query.size(2)), -math.inf)


def columns(x):
    """Which key belongs into column c of row i, there or not."""
    query, _, left, right = x.rest
    return keys_of(
        torch.arange(query.size(2))[:, None], torch.arange(left + 1 + right), left, right
    )


def wrapped(query, key, left, right, way=1):
    """The keys of each row, modulo n, forwards or backwards."""
    x, i = given(query, key, left, right), torch.arange(query.size(2))[:, None]
    j = i + way * (columns(x) - i)
    return x._replace(key=key[:, :, j % query.size(2)])


def endless_keys(query, key, left, right):
    """The keys of each row, out of keys that go on with minus infinity at both ends."""
    x = given(query, key, left, right)
    return x._replace(key=x.key.masked_fill(~x.visible[..., None], -math.inf))


def reads(**changed: Callable) -> dict[str, Callable]:
    """The step ``given`` with other keyword arguments."""
    return {"given": partial(given, **changed)}


def returned(change: Callable) -> dict[str, Callable]:
    """``change`` makes what is returned of (scores, query, key, left, right)."""
    return {"answer": lambda o, w, s, x: change(o, *x.rest)}


def pairs(query, key, left, right):
    """All scores, and the distance j - i of each."""
    at = torch.arange(query.size(2))
    return query @ key.mT / query.size(-1) ** 0.5, at - at[:, None]


def in_the_wide_table(o, query, key, left, right):
    """All scores, those outside of the window hidden."""
    scores, d = pairs(query, key, left, right)
    return scores.masked_fill((d < -left) | (d > right), -math.inf)
