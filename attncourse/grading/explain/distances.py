"""Tokens times the rows of a table of distances: which token met which row, for which pair?"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, same
from attncourse.grading.explain.asked import Asked, Wrong
from attncourse.grading.explain.relations import one_factor

NEAR = 1e-4


class Met(NamedTuple):
    """A pair whose score is another product than it should be.

    Args:
        query, key: the pair.
        is_, should: (token, row).
    """

    query: int
    key: int
    is_: tuple[int, int]
    should: tuple[int, int]


def met(token: str) -> Callable[[Asked], str]:
    """An explainer for products (b, h, n, m) of tokens (b, h, t, d) and rows (h, 2 span, d).

    Args:
        token: "query" or "key".
    """

    def explainer(asked: Asked) -> str:
        ran = [x for x in asked.wrong if not isinstance(x.seen, Raised)]
        if not asked.shaped or asked.shaped[0] is not ran[0] or 2 * len(ran) < len(asked.wrong):
            return ""  # the shape, or the error, says more
        call = ran[0]
        wrong = _wrong(call)
        says = _told(call, wrong, token) if wrong else _beside(call) or _exchanged(call, token)
        return f"In the call '{call.label}' {says}." if says else ""

    return explainer


def _wrong(call: Wrong) -> list[Met]:
    """The pairs that have another product; none where a pair has no product at all."""
    tokens, table = (x.double() for x in call.case.args[:2])
    every, rows = (tokens @ table.mT).flatten(2), table.size(1)
    (is_, there), (should, _) = (_found(x, every) for x in (call.seen, call.expected))
    places = ((is_ != should) & there).nonzero().tolist() if there.all() else []
    return [
        Met(i, j, divmod(int(is_[i, j]), rows), divmod(int(should[i, j]), rows)) for i, j in places
    ]


def _found(scores: Tensor, every: Tensor) -> tuple[Tensor, Tensor]:
    """Which product each pair has in all samples and heads, (n, m), and whether it has one."""
    apart = (scores.double().cpu()[..., None] - every[:, :, None, None]).abs()
    least, where = apart.flatten(0, 1).amax(0).min(-1)
    return where, least < NEAR


def _told(call: Wrong, wrong: list[Met], token: str) -> str:
    """The first pair that has another token; where there is none, that has another row."""
    other = next((x for x in wrong if x.is_[0] != x.should[0]), None)
    first = other or wrong[0]
    pair = f"the score of query {first.query} and key {first.key}"
    if other:
        return (
            f"{pair} is the product of {token} {first.is_[0]} and row {first.is_[1]} of the table; "
            f"it should be that of {token} {first.should[0]} and row {first.should[1]}"
        )
    return (
        f"{_rows(call, wrong)}: {pair}, distance {first.query - first.key}, has row {first.is_[1]} "
        f"of the table, and should have row {first.should[1]}"
    )


def _rows(call: Wrong, wrong: list[Met]) -> str:
    """At which distances rows are wrong, and how."""
    span, (*_, n, m) = call.case.args[1].size(1) // 2, call.expected.shape
    distances, seen = range(1 - m, n), {x.query - x.key for x in wrong}
    rules = (
        ("below 0", lambda x: x < 0), ("above 0", lambda x: x > 0), ("0", lambda x: x == 0),
        ("below -span", lambda x: x < -span), ("of -span and less", lambda x: x <= -span),
        ("of span and more", lambda x: x >= span),
        ("of span - 1 and more", lambda x: x >= span - 1),
        ("outside the table", lambda x: not -span <= x < span),
    )  # fmt: skip
    which = next((name for name, rule in rules if seen == set(filter(rule, distances))), "")
    where = f"only the rows for distances {which} are wrong" if which else "rows are wrong"
    by, got = {x.is_[1] - x.should[1] for x in wrong}, {x.is_[1] for x in wrong}
    if len(by) == 1:
        return f"{where}, by {abs(min(by))} too {'large' if min(by) > 0 else 'small'}"
    if len(got) == 1:
        return f"{where}, all of them {min(got)}"
    signs = {x > 0 for x in by}
    return where if len(signs) > 1 else f"{where}, all too {'large' if min(by) > 0 else 'small'}"


def _beside(call: Wrong) -> str:
    """A factor on all scores, or pairs that have none."""
    if factor := one_factor([(call.expected, call.seen)]):
        return f"all scores are {factor:.4g} times the products, which are asked as they are"
    seen = call.seen.double().cpu()
    for number, name in ((0.0, "0"), (-torch.inf, "minus infinity")):
        there = seen == number
        if (
            there.any()
            and torch.equal(there, there[:1, :1].expand_as(there))
            and same(call.expected.masked_fill(there, 0), seen.masked_fill(there, 0))
        ):
            i, j = there[0, 0].nonzero()[0].tolist()
            return f"the score of query {i} and key {j} is {name}; every pair has a product"
    return ""


def _exchanged(call: Wrong, token: str) -> str:
    """The sample and the heads from which the first wrong score comes."""
    tokens, table = (x.double() for x in call.case.args[:2])
    seen = call.seen.double().cpu()
    b, h, i, j = ((seen - call.expected).abs() > NEAR).nonzero()[0].tolist()
    every = torch.einsum("bhtd,grd->bhgtr", tokens, table)
    near = ((every - seen[b, h, i, j]).abs() < NEAR / 10).nonzero().tolist()
    if len(near) != 1 or near[0][:3] == [b, h, h]:
        return ""
    sample, head, of, t, row = near[0]
    return (
        f"the score of query {i} and key {j} in sample {b}, head {h} is the product of {token} {t} "
        f"of sample {sample}, head {head} and row {row} of the table of head {of}; each head has "
        "its own"
    )
