"""Of what is a result the sum, and with which factors? For states, scores and rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain, same
from attncourse.grading.explain.asked import Asked, Wrong

NEAR = 1e-3
MOST = 64  # a denominator


def mixture(*names: str, each: str = "sample head") -> Callable[[Asked], str]:
    """An explainer that tells the factors of the first wrong result, if these values add up to it.

    Args:
        names: of arguments, and of values of the right `Dataflow`, of the shape of the result.
        each: the first axes, in words; the factors are those of one place on all of them.
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
        place = tuple(apart.nonzero()[0].tolist()[: len(each.split())])
        basis = torch.stack([x[place].flatten().double() for x in parts], 1)
        is_, should = (_factors(basis, x[place].flatten().double()) for x in (seen, right))
        if not is_ or not should or list(map(_digits, is_)) == list(map(_digits, should)):
            return ""
        result = (asked.exercise.results or ("the result",))[number]
        where = ", ".join(f"{one} {k}" for one, k in zip(each.split(), place, strict=True))
        are, they = ("are", "they") if result.endswith("s") else ("is", "it")
        return (
            f"In the call '{call.label}', {where}, {result} {are} "
            f"{_sum(is_, names)}; {they} should be {_sum(should, names)}."
        )

    return explainer


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
    least = float((basis * factors).abs().amax(0).min())  # the smallest part must fit, too
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
            x, *rest = call.case.args
            probe = replace(call.case, args=(torch.eye(len(x)), *rest), gradients=False)
            ((_, right, seen),) = asked.again([probe])
            if not plain(seen) or seen.dim() != 2 or seen.size(1) != len(x):
                continue
            if not same(call.seen.double(), seen.double() @ x.double()):
                continue  # no sums of rows
            for k, (should, found) in enumerate(zip(right, seen, strict=False)):
                if difference(should, found):
                    found, should = (_rows(row, name) for row in (found, should))
                    where = f"In the call '{call.label}' row {k} of the result"
                    return f"{where} is {found}; it should be {should}."
        return ""

    return explainer


def _rows(row: Tensor, name: str) -> str:
    """``"1/3 times (x[0] + x[5] + x[10])"``."""
    parts: dict[str, list[str]] = {}
    for k, factor in enumerate(row.tolist()):
        if abs(factor) > NEAR:
            near = Fraction(factor).limit_denominator(MOST)
            times = f"{near}" if abs(near - factor) < 1e-5 else f"{factor:.3g}"
            parts.setdefault(times, []).append(f"{name}[{k}]")
    sums = [(times, " + ".join(rows)) for times, rows in parts.items()]
    return ", and ".join(x if n == "1" else f"{n} times ({x})" for n, x in sums) or "0"
