"""What is wrong with weights of attention: whom they read, their sums, and the scores behind."""

from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import same
from attncourse.grading.explain.heads import of_heads

NEAR = 1e-3


def says_of_map(label: str, right: Tensor, seen: Tensor, query: Any = None, key: Any = None) -> str:
    """One sentence on weights (..., queries, keys) that are not the right ones.

    Args:
        label: of the call.
        right, seen: the weights.
        query, key: what was asked and met, where it is known.
    """
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
    if says := of_heads(query, key, right, seen):
        return says
    if factor := _sharper(right, seen):
        return (
            f"The weights are those of scores {factor:.4g} times as large as they should be: "
            "look at the scale."
        )
    if (says := _exchanged(right, seen)) != "":
        return f"{where} {says}"
    return (
        f"{where} each query reads the right keys, and its weights have the right sum, but they "
        "are those of other scores: look at what comes before the softmax."
    )


def _other_keys(right: Tensor, seen: Tensor) -> str:
    """A key that gets some weight and should get none; or the other way round, in all heads."""
    hidden = ((seen == 0) & (right > 1e-4)).reshape(-1, *right.shape[-2:]).all(0)
    for wrong, says in (
        ((right == 0) & (seen.abs() > 1e-4), "gives key {} some weight; it should give it none"),
        (hidden, "gives key {} no weight; it should give it some"),
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
    return factor if fits and min(abs(factor), abs(factor - 1)) > 5e-3 else None


def _centred(weights: Tensor, visible: Tensor) -> Tensor:
    """The scores behind weights, each row with the mean 0; 0 where nothing is visible."""
    scores = torch.where(visible, weights, 1.0).log()
    mean = scores.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(visible, scores - mean, 0.0)
