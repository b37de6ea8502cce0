"""Tokens times the rows of a table of distances: which token met which row, for which pair?"""

from collections.abc import Callable

import torch
from torch import Tensor

from attncourse.grading.explain.asked import Asked

NEAR = 1e-4


def met(token: str) -> Callable[[Asked], str]:
    """An explainer for products (b, h, n, m) of tokens (b, h, t, d) and rows (h, 2 span, d).

    Args:
        token: "query" or "key".
    """

    def explainer(asked: Asked) -> str:
        call = asked.shaped[0]
        if call is not asked.wrong[0]:
            return ""
        tokens, table = (x.double() for x in call.case.args[:2])
        every, rows = (tokens @ table.mT).flatten(2), table.size(1)
        is_, should = (_found(x, every) for x in (call.seen, call.expected))
        off = ~torch.isclose(call.seen.double().cpu(), call.expected.double(), 1e-3, 1e-3)
        wrong = ((is_ != should) & off.flatten(0, 1).all(0)).nonzero().tolist()
        if not wrong or (is_ < 0).any():
            return ""  # its numbers are no such products
        i, j = min(wrong, key=lambda at: is_[*at] // rows == should[*at] // rows)
        (t, row), (other, asks) = (divmod(int(x[i, j]), rows) for x in (is_, should))
        how = ""
        if t == other:
            both = [(int(is_[*at]) % rows, int(should[*at]) % rows) for at in wrong]
            how = f"{_rows(both)}: "
        return (
            f"In the call '{call.label}' {how}the score of query {i} and key {j}, distance "
            f"{i - j}, is the product of {token} {t} and row {row} of the table; it should be "
            f"that of {token} {other} and row {asks}."
        )

    return explainer


def _rows(wrong: list[tuple[int, int]]) -> str:
    """What is true of all rows, each with the one in whose place it stands."""
    got, by = {row for row, _ in wrong}, {row - asks for row, asks in wrong}
    if len(got) == 1:
        return f"all wrong rows are {min(got)}"
    if min(by) > 0 or max(by) < 0:
        some = f"{abs(min(by))} " if len(by) == 1 else ""
        return f"all wrong rows are {some}too {'large' if min(by) > 0 else 'small'}"
    return "some rows are too large, and some too small"


def _found(scores: Tensor, every: Tensor) -> Tensor:
    """Which product each pair has in all samples and heads, (n, m); -1 where it has none."""
    apart = (scores.double().cpu()[..., None] - every[:, :, None, None]).abs()
    least, where = apart.flatten(0, 1).amax(0).min(-1)
    return where.masked_fill(least > NEAR, -1)
