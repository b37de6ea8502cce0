"""Attention whose values are the rows of the identity gives its own map: what is wrong with it?

The answer is called again with such values, so that a map can be looked at where only outputs are
asked; each KV head has columns of its own, so that the map tells whose values are mixed.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain, same
from attncourse.grading.explain.asked import Asked, Wrong, axis_names
from attncourse.grading.explain.heads import OTHER_ORDER, mixed_heads, used_heads, whose
from attncourse.grading.explain.steps import missing_step
from attncourse.grading.explain.weights import OTHER_SCORES, ROUNDED, says_of_map
from attncourse.grading.observe import Case

NEAR = 1e-3
BEHIND = (
    "The weights are right, so the fault lies behind them: at the values, or at what comes next."
)
IDENTITY = "Where the values are the identity, the output should be these weights, and is not: "
SEVERAL = "several"
MIXED = (
    "An output head mixes the values of several heads: look at how heads are split, shared and "
    "joined."
)
ONLY_RETURNED = "The output is right; only the returned weights are not."


def of_map(asked: Asked) -> str:
    """What is wrong with the first map that is wrong; of other scores, from which step on."""
    says = _first_wrong(asked)
    return (says.endswith(OTHER_SCORES) and missing_step(asked)) or says


def _first_wrong(asked: Asked) -> str:
    """The sentence on the first map that is wrong."""
    if asked.exercise.axes[:1] in (("b h n m",), ("n m",)):
        return _of_result(asked)
    calls = [x for x in asked.shaped if isinstance(x.expected, tuple)]
    returned = [says for call in calls if (says := _of_returned(asked, call))]
    if wrong := [says for says in returned if says != BEHIND]:
        return _told(wrong)
    behind = returned[0] if returned else ""
    return _of_mixed(asked, behind) or behind


def _of_result(asked: Asked) -> str:
    """What is wrong with results that are tables of weights themselves."""
    for call in asked.shaped:
        right = call.expected
        if isinstance(right, Tensor) and right.is_floating_point() and _are_weights(right):
            return says_of_map(call.label, right, call.seen)
    return ""


def _are_weights(x: Tensor) -> bool:
    """Do all rows sum to 1, or to 0 where nothing may be read?"""
    rows = x.double().sum(-1)
    return x.dim() > 1 and bool((((rows - 1).abs() < NEAR) | (rows.abs() < NEAR)).all())


def _of_returned(asked: Asked, call: Wrong) -> str:
    """(output, weights): which of the two is wrong, and how the weights are."""
    if len(call.expected) != 2 or not all(plain(x) for x in (*call.expected, *call.seen)):
        return ""
    (right, true), (made, weights) = call.expected, (x.double().cpu() for x in call.seen)
    if not _are_weights(true):
        return ""  # no weights, but such as a log-sum-exp
    if same(true, weights):
        return BEHIND
    if axis_names(asked, true, 1)[-2:-1] == ["h"]:  # one query
        true, weights = true[..., None, :], weights[..., None, :]
    says = says_of_map(call.label, true, weights, *_asks(asked, call.case))
    return f"{ONLY_RETURNED} {says}" if same(right, made) else says


def _of_mixed(asked: Asked, behind: str) -> str:
    """What is wrong with the maps that mix the values; ``behind`` right weights, only whose."""
    place = _place(asked, "value")
    if place is None:
        return ""
    wrong = [x for x in asked.wrong if x.case and not isinstance(x.seen, Raised)][:4]
    asks_again, found = asked.again([_with_identity(x.case, place) for x in wrong]), []
    for call, (case, *both) in zip(wrong, asks_again, strict=True):
        right, seen = (x[0] if isinstance(x, tuple) and x else x for x in both)
        if not (plain(right) and plain(seen) and right.shape == seen.shape):
            continue
        if not _mixes(seen, call, place):
            return ""  # the output is no weighted sum of the values, so there is no map
        if difference(right, seen):
            count = _heads(case.args[place])
            asks = (None, None) if behind else _asks(asked, case)
            says = of_mixing(case.label, right.double(), seen.double().cpu(), count, *asks)
            told = f"{behind} {IDENTITY * says.startswith('In the call')}{says}"
            found.append(told if behind else says)
    return _told(found)


def _told(found: list[str]) -> str:
    """The first sentence; that weights are rounded only where it is said of all calls."""
    return next((says for says in found if ROUNDED not in says), (found or [""])[0])


def _mixes(seen: Tensor, call: Wrong, place: int) -> bool:
    """Does the map mix the values of a call into the output that was seen?"""
    output = call.seen[0] if isinstance(call.seen, tuple) and call.seen else call.seen
    value = call.case.args[place].double()
    value = value.flatten(1, 2)[:, None] if value.dim() == 4 else value
    if not plain(output) or not seen.isfinite().all() or seen.size(-1) != value.size(-2):
        return True  # shapes and NaN are told by others
    try:
        return same(seen.double().cpu() @ value, output, 0.02)
    except RuntimeError:  # other axes: not for this comparison
        return True


def of_mixing(
    label: str, right: Tensor, seen: Tensor, count: int, query: Any = None, key: Any = None
) -> str:
    """What is wrong with maps (..., queries, count * keys); each KV head has columns of its own.

    Args:
        label: of the call.
        right, seen: the maps.
        count: of KV heads.
        query, key: what was asked and met, where it is known.
    """
    values, also = _whose_values(right, seen, count)
    if also == SEVERAL:
        return values
    reads, made = (x.unflatten(-1, (count, -1)).sum(-2) for x in (right, seen))
    if not difference(reads, made):
        return values
    says = says_of_map(label, reads, made, query, key)
    # Where heads stand in another order, so do the values that they mix.
    return says if also in says or OTHER_ORDER in says else f"{values} {says}".strip()


def _whose_values(right: Tensor, seen: Tensor, count: int) -> tuple[str, str]:
    """Whose values the heads mix, as a sentence; and the one that says it of their keys as well."""
    if count == 1 or right.dim() != 4:
        return "", ""
    reads, mixed = mixed_heads(right, count), mixed_heads(seen, count)
    if reads is None or not seen.isfinite().all() or not seen.any(-1).any(-1).all():
        return "", ""
    if mixed is None:
        several = used_heads(seen, count).sum(1) > 1
        return (MIXED, SEVERAL) if several.any() else ("", "")
    own = count == right.size(1)
    return (
        whose(mixed, reads, "Output", "mix the values of", own),
        whose(mixed, reads, "Query", "read", own),
    )


def _asks(asked: Asked, case: Case | None) -> tuple[Any, Any]:
    """Queries and keys of a call, where arguments are called so."""
    query, key = _place(asked, "query"), _place(asked, "key")
    if case is None or query is None or key is None:
        return None, None
    return case.args[query], case.args[key]


def _place(asked: Asked, name: str) -> int | None:
    """The place of an argument, where the answer is a function of query, key and values."""
    names = [name.rstrip("s") for name in asked.arguments] if asked.cases else []
    attends = "value" in names and ("key" in names or "latent" in names)
    return names.index(name) if attends and "state" not in names and name in names else None


def _heads(value: Tensor) -> int:
    """How many heads of values there are; 1 where they have no axis for it."""
    return value.size(1) if value.dim() == 4 else 1


def _with_identity(case: Case, place: int) -> Case:
    """As many values as there are keys, each with a 1 in a place of its own and of its head."""
    value = case.args[place]
    rows = torch.eye(_heads(value) * value.size(-2))
    rows = rows.unflatten(0, (-1, value.size(-2))) if value.dim() == 4 else rows
    rows = rows.expand(*value.shape[:-2], -1, -1).contiguous()
    args = (*case.args[:place], rows, *case.args[place + 1 :])
    label = f"{case.label}, and for values the identity, {rows.size(-1)} wide"
    return replace(case, label=label, args=args, gradients=False)
