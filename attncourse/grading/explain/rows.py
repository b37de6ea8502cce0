"""Of which rows of its argument is each row of a result the sum? The rows of the identity tell."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from attncourse.grading.compare import plain, same
from attncourse.grading.explain.asked import Asked

NEAR = 1e-3
MOST = 64  # a denominator


def sums_of_rows(name: str) -> Callable[[Asked], str]:
    """An explainer for answers whose rows are sums of rows of their first argument.

    Args:
        name: of that argument.
    """

    def explainer(asked: Asked) -> str:
        calls = [x for x in asked.wrong if x.case and plain(x.seen) and x.seen.dim()]
        for call in calls[:3]:
            x = call.case.args[0]
            probe = replace(call.case, args=(torch.eye(len(x)), *call.case.args[1:]))
            ((_, right, seen),) = asked.again([replace(probe, gradients=False)])
            if not plain(seen) or seen.dim() != 2 or seen.size(1) != len(x):
                continue
            where = f"In the call '{call.label}'"
            if same(right, seen) and x.dim() == 1:
                return f"{where} {name} is a vector; with a matrix the answer would be right."
            if not same(call.seen.double(), seen.double() @ x.double()):
                return f"{where} the rows of the result are no sums of rows of {name}."
            for k, (should, found) in enumerate(zip(right, seen, strict=False)):
                if not torch.allclose(should.double(), found.double(), atol=NEAR):
                    found, should = (_sum(row, name) for row in (found, should))
                    return f"{where} row {k} of the result is {found}; it should be {should}."
        return ""

    return explainer


def _sum(row: Tensor, name: str) -> str:
    """``"1/3 of x[0] + x[5] + x[10]"``."""
    parts: dict[str, list[str]] = {}
    for k in (row.abs() > NEAR).nonzero().flatten().tolist():
        times = Fraction(float(row[k])).limit_denominator(MOST)
        near = abs(float(times) - float(row[k])) < 1e-5
        parts.setdefault(str(times) if near else f"{float(row[k]):.3g}", []).append(f"{name}[{k}]")
    sums = [
        " + ".join(of[:8]) + " + ..." * (len(of) > 8) if times == "1" else
        f"{times} of {' + '.join(of[:8])}{' + ...' * (len(of) > 8)}"
        for times, of in parts.items()
    ]  # fmt: skip
    return ", and ".join(sums) or "0"
