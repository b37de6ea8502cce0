"""What is wrong with weights of attention: whom they read, their sums, and the scores behind."""

from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import plain, same
from attncourse.grading.explain.heads import centred, of_heads

NEAR = 1e-3
COARSE = 1e-2  # as bfloat16 leaves weights
LEAST = 1e-4  # a smaller weight may be rounding
MOST_ROWS = 400
AS_FAR = "As far as the output tells: "  # where weights are not returned
ONE = {"samples": "sample", "heads": "head", "queries": "query"}
ROUNDED = (
    "The weights are right to about two digits only. Is something rounded, or computed in float16 "
    "or bfloat16?"
)
OTHER_SCORES = (
    "weights stand where they should, and have the right sums, but not the right sizes: look at "
    "how scores are made, and at what is made of them."
)


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
        *_, i, _ = (~seen.isfinite()).nonzero()[0].tolist()
        empty = " They should be 0." if (right[..., i, :] == 0).all() else ""
        return f"{where} the weights of query {i} are NaN or infinite.{empty}"
    if (seen < -NEAR).any() and (right >= 0).all():
        return f"{where} a weight is {float(seen.min()):.3g}; no softmax gives a negative one."
    if says := _other_softmax(right, seen) or _other_keys(right, seen):
        return f"{where} {says}"
    if (seen - right).abs().max() < COARSE:
        return ROUNDED
    sums, asks = seen.sum(-1), right.sum(-1)
    if (off := (sums - asks).abs()).max() > NEAR:
        *_, i = (off == off.max()).nonzero()[0].tolist()
        worst = off.argmax()
        return (
            f"{where} the weights of query {i} sum to {sums.flatten()[worst]:.4g}; they should sum "
            f"to {asks.flatten()[worst]:.4g}."
        )
    if says := of_heads(query, key, right, seen):
        return says
    if factor := _sharper(right, seen):
        return (
            f"{where} the weights are those of scores {factor:.4g} times{_as_power(factor, query)} "
            "as large as they should be: look at the scale."
        )
    if says := _shared(right, seen) or _misplaced(right, seen) or _counted(right, seen):
        return f"{where} {says}"
    return f"{where} {OTHER_SCORES}"


def _as_power(factor: float, query: Any) -> str:
    """`` (sqrt(6); queries are 6 wide)`` where the factor is such a power; '' where it is none."""
    d = query.size(-1) if plain(query) else 1
    powers = (0.5, f"sqrt({d})"), (1, f"{d}"), (-0.5, f"1 / sqrt({d})"), (-1, f"1 / {d}")
    fits = (name for power, name in powers if d > 1 and abs(factor / d**power - 1) < COARSE / 2)
    return next((f" ({name}; queries are {d} wide)" for name in fits), "")


def _other_keys(right: Tensor, seen: Tensor) -> str:
    """A key that gets some weight and should get none; or the other way round, in all heads."""
    gone = (seen == 0).all(-1) & (right > LEAST).any(-1)
    if gone.any():
        *_, query = gone.nonzero()[0].tolist()
        return (
            f"all weights of query {query} are 0, and should not be: are they in another row or "
            "column, are all its keys hidden, or is something infinite divided by?"
        )
    top, shares = right.argmax(-1, keepdim=True), _whole(right, -1) and _whole(seen, -1)
    sharp = (seen.gather(-1, top) > 1 - LEAST).all() and (right.amax(-1) < 1 - NEAR).all()
    if shares and sharp:
        return (
            "all weight of each query is on the key with its largest score, as where scores are "
            "far too large: look at the scale."
        )
    hidden = ((seen == 0) & (right > LEAST)).reshape(-1, *right.shape[-2:]).all(0)
    for wrong, says in (
        ((right == 0) & (seen.abs() > LEAST), "gives key {} some weight; it should give it none"),
        (hidden, "gives key {} no weight; it should give it some"),
    ):
        if wrong.any():
            *lead, query, key = wrong.nonzero()[0].tolist()
            heads = wrong.movedim(-3, 0).flatten(1).any(1) if wrong.dim() > 2 else wrong.any()
            head = "" if heads.all() else f"in head {lead[-1]} "
            told = f"{head}query {query} {says.format(key)}: look at who may read whom."
            return f"{told} {_reads(right, seen)}".strip()
    return ""


def _reads(right: Tensor, seen: Tensor) -> str:
    """Which keys the query with the most mistakes reads, where no weight is next to 0."""
    queries, right, seen = right.size(-2), right.abs(), seen.abs()
    wrong = ((right > 0) != (seen > 0)).sum(-1).flatten()
    row = int(wrong.argmax())
    both = [x.flatten(0, -2)[row] for x in (seen, right)]
    reads, should = (_listed(x > 0) for x in both)
    if any(((x > 0) & (x < LEAST)).any() for x in both) or not (reads and should):
        return ""
    return f"Query {row % queries} reads {reads}; it should read {should}."


def _listed(there: Tensor) -> str:
    """``"keys 2 to 5, 8"``, or '' where that would be long."""
    numbers = there.nonzero().flatten().tolist()
    ends = [(k - 1 not in numbers, k + 1 not in numbers, k) for k in numbers]
    starts, stops = [k for a, _, k in ends if a], [k for _, b, k in ends if b]
    runs = [f"{a} to {b}" if b > a else f"{a}" for a, b in zip(starts, stops, strict=True)]
    many = "keys" if len(numbers) > 1 else "key"
    return f"{many} {', '.join(runs)}" if 0 < len(runs) < 4 else "nothing" if not runs else ""


def _other_softmax(right: Tensor, seen: Tensor) -> str:
    """Weights that sum to 1, or to 0 where nothing is visible, but not over the keys."""
    if _whole(seen, -1):
        return ""
    for d, name in ((-2, "queries"), (-3, "heads"), (-4, "samples")):
        several = -d <= seen.dim() and seen.size(d) > 1
        if several and _whole(seen, d) and not _whole(right, d):
            return (
                f"the weights sum to 1 over the {name}, as after a softmax over them; those of "
                "each query should, over its keys."
            )
    return ""


def _whole(weights: Tensor, dim: int) -> bool:
    """Do they sum to 1 along this axis, wherever there are any?"""
    sums = weights.sum(dim)
    return bool((((sums - 1).abs() < NEAR) | (sums.abs() < NEAR)).all()) and bool(sums.any())


def _shared(right: Tensor, seen: Tensor) -> str:
    """All samples, heads, queries or keys have the same weights, though they should not."""
    for d, name in enumerate(("samples", "heads", "queries", "keys")[4 - right.dim() :]):
        if right.size(d) > 1 and same(right.narrow(d, 0, 1).expand_as(right), seen):
            return f"all {name} have the weights of the first."
        if right.size(d) > 1 and same(right.mean(d, keepdim=True).expand_as(right), seen):
            return f"the weights are averaged over the {name}."
    return ""


def _misplaced(right: Tensor, seen: Tensor) -> str:
    """The right rows, each in one place, but other queries or heads have them."""
    rows, found = right.flatten(0, -2), seen.flatten(0, -2)
    if len(rows) > MOST_ROWS or len(rows) < 3:
        return ""
    like = (found[:, None] - rows).abs().amax(-1) < NEAR
    if not (like.any(1).all() and like.any(0).all()):
        return ""
    at = int((~like.diagonal()).int().argmax())
    names = ("samples", "heads", "queries")[4 - right.dim() :]

    def place(row: int) -> str:
        places = torch.unravel_index(torch.tensor(row), right.shape[:-1])
        return ", ".join(f"{ONE[name]} {int(k)}" for name, k in zip(names, places, strict=True))

    return (
        "all right rows of weights are there, but in other places: at "
        f"{place(at)} stands that of {place(int(like[at].int().argmax()))}."
    )


def _counted(right: Tensor, seen: Tensor) -> str:
    """A key that has several times its share beside the others, the same in all queries."""
    *_, m = right.shape
    if m < 2 or not bool((right > LEAST).all()):
        return ""
    times = (seen / right).flatten(0, -2)
    times = times / times.amin(-1, keepdim=True).clamp(min=LEAST)
    most = times[0]
    told = torch.allclose(times, most, rtol=NEAR) and torch.allclose(most, most.round(), rtol=NEAR)
    if not told or not 1.5 < float(most.max()) <= 64:
        return ""
    key, count = int(most.argmax()), int(most.max().round())
    return f"beside the others, key {key} has {count} times its share."


def _sharper(right: Tensor, seen: Tensor) -> float | None:
    """The one factor on all scores that makes these weights of the right ones."""
    visible = right > 0
    if not torch.equal(seen > 0, visible):
        return None
    a, b = (centred(torch.where(visible, x, 1.0).log(), visible) for x in (right, seen))
    if not a.any():
        return None
    factor = float((a * b).sum() / a.square().sum())
    fits = torch.allclose(b, factor * a, rtol=1e-2, atol=1e-3)
    return factor if fits and min(abs(factor), abs(factor - 1)) > 5e-3 else None
