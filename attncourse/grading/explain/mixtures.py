"""Of which tables is a result the sum, and with which factors? For states and other sums."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import Asked, Wrong, tensors

NEAR = 1e-3
COARSE = 5e-3  # of factors that were rounded


def mixture(*names: str) -> Callable[[Asked], str]:
    """An explainer that tells the factors of the first wrong result, if these values add up to it.

    Args:
        names: of arguments, and of values of the right `Dataflow`, of the shape of the result.
    """

    def explainer(asked: Asked) -> str:
        for call in asked.shaped:
            for number, (right, seen) in enumerate(tensors(call.expected, call.seen)):
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
        if is_ is None or should is None or is_ == should:
            return ""
        result = (asked.exercise.results or ("the result",))[number]
        are, they = ("are", "they") if result.endswith("s") else ("is", "it")
        return (
            f"In the call '{call.label}', sample {place[0]}, head {place[1]}, {result} {are} "
            f"{_sum(is_, names)}; {they} should be {_sum(should, names)}."
        )

    return explainer


def in_scores(*names: str) -> Callable[[Asked], str]:
    """An explainer for weights: by what are these arguments multiplied that add up to the scores?

    Args:
        names: of arguments that have the shape of the weights; some may be None.
    """

    def explainer(asked: Asked) -> str:
        for call in asked.shaped:
            arguments = dict(zip(asked.arguments, call.case.args))  # noqa: B905
            given = {name: arguments[name] for name in names if plain(arguments[name])}
            is_, should = (_behind(list(given.values()), x) for x in (call.seen, call.expected))
            if is_ and should and any(abs(a - b) > COARSE * abs(b) for a, b in zip(is_, should)):  # noqa: B905
                return (
                    f"In the call '{call.label}' the scores are {_sum(is_, list(given))}; they "
                    f"should be {_sum(should, list(given))}."
                )
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
    return [float(f"{x:.3g}") for x in (factors / scale).tolist()] if fits else None


def _sum(factors: list[float], names: Sequence[str]) -> str:
    parts = [f"{x:g} times {name}" for x, name in zip(factors, names, strict=True) if x]
    return " plus ".join(parts).replace("plus -", "minus ") or "0"
