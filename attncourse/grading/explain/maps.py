"""Attention whose values are the rows of the identity gives its own map: what is wrong with it?

The answer is called again with such values, so that a map can be looked at where only outputs are asked.
"""

from dataclasses import replace
from inspect import signature

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain, same
from attncourse.grading.explain.asked import Asked, Wrong
from attncourse.grading.observe import Case

NEAR = 1e-3


def of_map(asked: Asked) -> str:
    """What is wrong with the first map that is wrong."""
    for call in asked.shaped:
        if isinstance(call.expected, tuple) and (says := _of_returned(call)):
            return says
    place = _place_of_values(asked)
    if place is None:
        return ""
    cases = [_with_identity(x.case, place) for x in asked.wrong if x.case]
    for case, right, seen in asked.again(cases[:4]):
        right, seen = (x[0] if isinstance(x, tuple) and x else x for x in (right, seen))
        if plain(right) and plain(seen) and right.shape == seen.shape and difference(right, seen):
            return says_of_map(case.label, right, seen)
    return ""


def _of_returned(call: Wrong) -> str:
    """(output, weights): which of the two is wrong, and how the weights are."""
    if len(call.expected) != 2 or not all(plain(x) for x in (*call.expected, *call.seen)):
        return ""
    (right, true), (made, weights) = call.expected, (x.double().cpu() for x in call.seen)
    rows = true.double().sum(-1)
    if true.dim() < 3 or not bool((((rows - 1).abs() < NEAR) | (rows.abs() < NEAR)).all()):
        return ""  # no weights
    if same(true, weights):
        return "The weights are right, so the fault lies behind them: look at how they meet the values."
    if same(right, made):
        return "The output is right; only the returned weights are not."
    return says_of_map(call.label, true, weights)


def _place_of_values(asked: Asked) -> int | None:
    """The place of the values among the arguments, where the answer is a function of query, key and values."""
    spec = getattr(asked.judge, "spec", None)
    if spec is None or not asked.cases:
        return None
    names = [name.rstrip("s") for name in signature(spec).parameters]
    attends = "value" in names and ("key" in names or "latent" in names)
    return names.index("value") if attends and "state" not in names else None


def _with_identity(case: Case, place: int) -> Case:
    """As many values as there are keys, each with a 1 in a place of its own."""
    value = case.args[place]
    rows = torch.eye(value.size(-2)).expand(*value.shape[:-2], -1, -1).contiguous()
    args = (*case.args[:place], rows, *case.args[place + 1 :])
    return replace(case, args=args, gradients=False)


def says_of_map(label: str, right: Tensor, seen: Tensor) -> str:
    """One sentence on weights (..., queries, keys) that are not the right ones."""
    right, seen = right.double(), seen.double().cpu()
    where = f"In the call '{label}'"
    if not seen.isfinite().all():
        *_, i = (~seen.isfinite()).any(-1).nonzero()[0].tolist()
        empty = " It may read nothing, so it gives 0." if (right[..., i, :] == 0).all() else ""
        return f"{where} the weights of query {i} are NaN or infinite.{empty}"
    if says := _other_keys(right, seen):
        return f"{where} {says}"
    sums, asks = seen.sum(-1), right.sum(-1)
    if (off := (sums - asks).abs()).max() > NEAR:
        *_, i = (off == off.max()).nonzero()[0].tolist()
        worst = off.argmax()
        return (
            f"{where} the weights of query {i} sum to {sums.flatten()[worst]:.4g}; they should sum "
            f"to {asks.flatten()[worst]:.4g}."
        )
    if (seen < -NEAR).any() and (right >= 0).all():
        return f"{where} a weight is {float(seen.min()):.3g}; no softmax gives a negative one."
    if factor := _sharper(right, seen):
        return (
            f"The weights are those of scores {factor:.4g} times as large as they should be: look at "
            "the scale."
        )
    if (says := _exchanged(right, seen)) != "":
        return f"{where} {says}"
    return (
        f"{where} each query reads the right keys, and its weights have the right sum, but they are "
        "those of other scores: look at what comes before the softmax."
    )


def _other_keys(right: Tensor, seen: Tensor) -> str:
    """A key that gets some weight and should get none, or the other way round."""
    for wrong, says in (
        ((right == 0) & (seen.abs() > 1e-4), "gives key {} some weight; it should give it none"),
        ((seen == 0) & (right > 1e-4), "gives key {} no weight; it should give it some"),
    ):
        if wrong.any():
            *_, query, key = wrong.nonzero()[0].tolist()
            return f"query {query} {says.format(key)}: look at who may read whom."
    return ""


def _exchanged(right: Tensor, seen: Tensor) -> str:
    """The maps of samples, heads or queries, or keys, in another order."""
    for d, name in enumerate(("samples", "heads", "queries", "keys")[4 - right.dim() :]):
        if right.size(d) > 1 and not same(right, seen):
            if same(right.flip(d), seen):
                return f"the maps of the {name} stand in the opposite order."
            if same(right.narrow(d, 0, 1).expand_as(right), seen):
                return f"all {name} have the weights of the first."
            if same(right.mean(d, keepdim=True).expand_as(right), seen):
                return f"the weights are averaged over the {name}."
    return ""


def _sharper(right: Tensor, seen: Tensor) -> float | None:
    """The one factor on all scores that makes these weights of the right ones."""
    visible = right > 0
    if not torch.equal(seen > 0, visible):
        return None
    a, b = (_centred(x, visible) for x in (right, seen))
    if not a.any():
        return None
    factor = float((a * b).sum() / a.square().sum())
    fits = torch.allclose(b, factor * a, rtol=1e-2, atol=1e-3)
    return factor if fits and abs(factor - 1) > 1e-3 else None


def _centred(weights: Tensor, visible: Tensor) -> Tensor:
    """The scores behind weights, each row with the mean 0; 0 where nothing is visible."""
    scores = torch.where(visible, weights, 1.0).log()
    mean = scores.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(visible, scores - mean, 0.0)
