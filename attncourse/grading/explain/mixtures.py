"""Of what is a result the sum, and with which factors? For states, rows and scores of weights."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain, same
from attncourse.grading.explain.asked import Asked, Wrong

NEAR = 1e-3
COARSE = 5e-3  # of factors that are the same
MOST = 64  # a denominator


def mixture(*names: str) -> Callable[[Asked], str]:
    """An explainer that tells the factors of the first wrong result, if these values add up to it.

    Args:
        names: of arguments, and of values of the right `Dataflow`, of the shape of the result.
    """

    def explainer(asked: Asked) -> str:
        for call, number, right, seen in asked.results:
            if difference(right, seen) and (says := _of(asked, call, right, seen, number)):
                return says
        return ""

    def _of(asked: Asked, call: Wrong, right: Tensor, seen: Tensor, number: int) -> str:
        parts = [x for x in _values(asked, call, names) if x.shape == right.shape]
        if call.case is None or len(parts) < len(names):
            return ""
        apart = ~torch.isclose(seen.double(), right.double(), rtol=NEAR, atol=1e-4)
        place = tuple(apart.nonzero()[0].tolist()[:2])  # a sample and a head
        basis = torch.stack([x[place].flatten().double() for x in parts], 1)
        is_, should = (_factors(basis, x[place].flatten().double()) for x in (seen, right))
        if not is_ or not should or list(map(_digits, is_)) == list(map(_digits, should)):
            return ""
        result = (asked.exercise.results or ("the result",))[number]
        are, they = ("are", "they") if result.endswith("s") else ("is", "it")
        return (
            f"In the call '{call.label}', sample {place[0]}, head {place[1]}, {result} {are} "
            f"{_sum(is_, names)}; {they} should be {_sum(should, names)}."
        )

    return explainer


def parts_of_scores(*names: str, number: int = 1) -> Callable[[Asked], str]:
    """An explainer for scores that are a sum: by which factor is each part of them off?

    Args:
        names: of the parts: values of the right `Dataflow` in the shape of the weights.
        number: of the weights among the results.
    """

    def explainer(asked: Asked) -> str:
        for call in asked.shaped:
            weights = [x[number].double().cpu() for x in (call.expected, call.seen)]
            many = weights[0][:, 0, ..., 1:].numel() >= 4 * len(names)  # equations for each head
            if many and difference(*weights) and (says := _of(asked, call, *weights)):
                return says
        return ""

    def _of(asked: Asked, call: Wrong, right: Tensor, seen: Tensor) -> str:
        parts = _values(asked, call, names)
        for h in range(right.size(1)):
            should, found = (_behind([p[:, h] for p in parts], x[:, h]) for x in (right, seen))
            if not (should and found):
                return ""
            times = [a / b for a, b in zip(found, should, strict=True)]
            if max(abs(x - 1) for x in times) > COARSE:
                told = [f"{name} count {x:.3g} times" for name, x in zip(names, times, strict=True)]
                scores = f"in the scores of head {h} {' and '.join(told)} what they should"
                alike = max(times) - min(times) < COARSE * abs(times[0])
                return f"In the call '{call.label}' {scores}{': look at the scale' * alike}."
        return ""

    return explainer


def _behind(tables: list[Tensor], weights: Tensor) -> list[float] | None:
    """The factors with which tables add up to the scores behind the weights of a softmax."""
    sums = weights.double().sum(-1)
    if not torch.allclose(sums, torch.ones_like(sums), atol=NEAR) or not (weights > 1e-9).all():
        return None
    scores = (x.double() for x in (*tables, weights.double().log()))
    *parts, number = ((x - x.mean(-1, keepdim=True)).flatten() for x in scores)
    found = _factors(torch.stack(parts, 1), number)
    return found and [round(x, 6) + 0.0 for x in found]


def _values(asked: Asked, call: Wrong, names: tuple[str, ...]) -> list[Tensor]:
    """The arguments and named values of a call that are called so."""
    arguments = dict(zip(asked.arguments, call.case.args, strict=False))
    made = asked.exercise.right.values(*call.case.args, **call.case.kwargs)
    known = arguments | {x.called: x.number for x in made}
    return [known[name] for name in names if plain(known.get(name))]


def _factors(basis: Tensor, number: Tensor) -> list[float] | None:
    """The factors with which the columns add up to the number, if they do so in one way only."""
    scale = basis.abs().amax(0)
    if not scale.all():
        return None  # a table of zeros may have any factor
    basis = basis / scale
    if len(number) <= basis.size(1) or torch.linalg.matrix_rank(basis, rtol=1e-4) < basis.size(1):
        return None
    factors = torch.linalg.lstsq(basis, number[:, None], driver="gelsd").solution[:, 0]
    least = float(
        (basis * factors).abs().amax(0).min()
    )  # what the smallest part adds must fit, too
    fits = torch.allclose(basis @ factors, number, rtol=0.0, atol=max(NEAR * least, 1e-6))
    return (factors / scale).tolist() if fits else None


def _sum(factors: list[float], names: Sequence[str]) -> str:
    least = 1e-4 * max(map(abs, factors))  # rounding
    both = zip(factors, names, strict=True)
    parts = [f"{_digits(x):g} times {name}" for x, name in both if abs(x) > least]
    return " plus ".join(parts).replace("plus -", "minus ") or "0"


def _digits(x: float) -> float:
    """Three digits of a number."""
    return float(f"{x:.3g}")


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
                    found, should = (_rows(row, name) for row in (found, should))
                    return f"{where} row {k} of the result is {found}; it should be {should}."
        return ""

    return explainer


def _rows(row: Tensor, name: str) -> str:
    """``"1/3 times (x[0] + x[5] + x[10])"``."""
    parts: dict[str, list[str]] = {}
    for k in (row.abs() > NEAR).nonzero().flatten().tolist():
        times = Fraction(float(row[k])).limit_denominator(MOST)
        near = abs(float(times) - float(row[k])) < 1e-5
        parts.setdefault(str(times) if near else f"{float(row[k]):.3g}", []).append(f"{name}[{k}]")
    sums = []
    for factor, of in parts.items():
        listed = " + ".join(of[:8]) + " + ..." * (len(of) > 8)
        sums.append(listed if factor == "1" else f"{factor} times ({listed})")
    return ", and ".join(sums) or "0"
