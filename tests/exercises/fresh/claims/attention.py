"""Claims about attention: who reads whom, weights and scores."""

import re

import torch
from torch import Tensor

from fresh.claims import NUMBER, claim, number
from fresh.claims.results import wrong_pairs
from fresh.evidence import Evidence, alike, pairs, parts


def _argument(evidence: Evidence, *names: str) -> str:
    given = evidence.calls[0].given if evidence.calls else {}
    return next((name for name in names if isinstance(given.get(name), Tensor)), "")


def _reads(evidence: Evidence, query: int, key: int, want: bool) -> bool | None:
    """In some call: does the query read the key where the definition does not, or the other way round?"""
    wrong = [x for x in wrong_pairs(evidence) if all(isinstance(y, Tensor) for y in x)]
    wrong = [(a, b) for a, b in wrong if a.shape == b.shape]
    masks = [(a, b) for a, b in wrong if a.dtype == b.dtype == torch.bool and a.dim() > 1]
    if masks:
        inside = [x for x in masks if query < x[0].size(-2) and key < x[0].size(-1)]
        return any(bool(((b == want) & (a != want))[..., query, key].any()) for a, b in inside)
    name = _argument(evidence, "value", "values", "v")
    if not name:
        return None
    for call in evidence.calls:
        value = call.given[name]
        if value.dim() < 3 or key >= value.size(-2) or isinstance(call.seen, BaseException):
            continue
        other = value.clone()
        other[..., key, :] += 1.0
        told = []
        for before, after in zip(
            (call.right, call.seen), evidence.again(call, **{name: other}), strict=True
        ):
            a, b = parts(before)[0], parts(after)[0]
            if (
                not isinstance(a, Tensor)
                or not isinstance(b, Tensor)
                or a.shape != b.shape
                or query >= a.size(-2)
            ):
                break
            told.append(not alike(a[..., query, :], b[..., query, :], 1e-6))
        if told == [not want, want]:
            return True
    return False


@claim(r"query (\d+) reads key (\d+)")
def _too_much(found, evidence):
    return _reads(evidence, int(found[1]), int(found[2]), True)


@claim(r"query (\d+) does not read key (\d+)")
def _too_little(found, evidence):
    return _reads(evidence, int(found[1]), int(found[2]), False)


@claim(rf"(?:add up to|sum to) {NUMBER}(?:\.|,|$| )")
def _sums(found, evidence):
    told, name = number(found[1]), _argument(evidence, "value", "values")
    if "here some" not in found.string or not name:
        return None
    sums = [
        parts(evidence.again(call, **{name: torch.ones_like(call.given[name])})[1])[0]
        for call in evidence.calls
    ]
    sums = [x for x in sums if isinstance(x, Tensor)]
    return any(bool(((x - told).abs() <= 0.01 * abs(told) + 1e-3).any()) for x in sums)


@claim(rf"scores (?:that reach the softmax )?are {NUMBER} times what they should be")
def _scores(found, evidence):
    name = _argument(evidence, "query")
    if not name:
        return None
    factor = number(found[1])
    return any(
        alike(evidence.again(call, **{name: call.given[name] * factor})[0], call.seen, 0.05)
        for call in evidence.wrong
    )


@claim(r"^The output is right, but the returned weights are not")
def _only_weights(found, evidence):
    both = [list(pairs(call)) for call in evidence.wrong]
    return all(alike(*x[0]) for x in both if x) and any(
        not alike(*x[1]) for x in both if len(x) > 1
    )


@claim(r"^Right in all calls: ([\w ,]+)\. ")
def _some_right(found, evidence):
    names = re.split(r" and |, ", found[1])
    if not set(names) <= set(evidence.names):
        return None
    places_of = [evidence.names.index(name) for name in names]
    both = [list(pairs(call)) for call in evidence.calls]
    return all(alike(*x[k]) for x in both for k in places_of if k < len(x))
