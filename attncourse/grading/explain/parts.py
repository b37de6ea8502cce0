"""How much does each part count in scores that are a sum? The weights tell."""

from collections.abc import Callable

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import Asked, Wrong

FITS = 1e-6  # of what is to be explained, squared
NEAR = 1e-2


def parts_of_scores(*names: str, number: int = 1) -> Callable[[Asked], str]:
    """An explainer that tells the factor by which each part of the scores is off.

    Args:
        names: of the parts: values of the right `Dataflow` in the shape of the weights.
        number: of the weights among the results.
    """

    def explainer(asked: Asked) -> str:
        for call in asked.shaped:
            weights = [x[number].double().cpu() for x in (call.expected, call.seen)]
            known = min(x.min() for x in weights) > 1e-6
            many = weights[0][:, 0, ..., 1:].numel() >= 4 * len(names)  # equations for each head
            if known and many and difference(*weights) and (says := _of(asked, call, *weights)):
                return says
        return ""

    def _of(asked: Asked, call: Wrong, right: Tensor, seen: Tensor) -> str:
        made = {x.called: x.number for x in asked.exercise.right.values(*call.case.args)}
        parts = [made[name].double() for name in names if plain(made.get(name))]
        for h in range(right.size(1)):
            should, found = (
                _factors(x[:, h].log(), [p[:, h] for p in parts]) for x in (right, seen)
            )
            if should is None or found is None:
                return ""
            times = [a / b for a, b in zip(found, should, strict=True)]
            if max(abs(x - 1) for x in times) > NEAR:
                told = [f"{name} count {x:.3g} times" for name, x in zip(names, times, strict=True)]
                scores = f"in the scores of head {h} {' and '.join(told)} what they should"
                alike = max(times) - min(times) < NEAR * abs(times[0])
                return f"In the call '{call.label}' {scores}{': look at the scale' * alike}."
        return ""

    return explainer


def _factors(logs: Tensor, parts: list[Tensor]) -> list[float] | None:
    """The factors on the parts whose softmax has these logarithms, or None."""
    logs, *parts = (x - x.mean(-1, keepdim=True) for x in (logs, *parts))
    table = torch.stack([x.flatten() for x in parts], 1)
    factors = torch.linalg.lstsq(table, logs.flatten()[:, None]).solution
    off = (table @ factors).flatten() - logs.flatten()
    told = off.square().sum() <= FITS * logs.square().sum()
    return [round(x, 6) for x in factors.flatten().tolist()] if told else None
