"""Claims about attention: who reads whom, weights and scores."""

import re

import torch
from torch import Tensor

from fresh.claims import NUMBER, claim, number
from fresh.claims.results import wrong_pairs
from fresh.evidence import Call, Evidence, alike, pairs, parts

PAST = "past_value"


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
    looks = [_looks(evidence, call, name, query, key) for call in evidence.calls] if name else []
    looks = [both for both in looks if both]
    told = [bool(((seen == want) & (right != want)).any()) for right, seen in looks]
    return any(told) if told else None


def _looks(evidence: Evidence, call: Call, name: str, query: int, key: int) -> tuple | None:
    """Does the output of the query change with the value of the key, by the definition and in the answer?"""
    if isinstance(past := call.given.get(PAST), Tensor):  # keys count from the first that is cached
        name, key = (PAST, key) if key < past.size(-2) else (name, key - past.size(-2))
    value = call.given[name]
    if value.dim() < 2 or key >= value.size(-2) or isinstance(call.seen, BaseException):
        return None
    other = value.clone()
    other[..., key, :] += 1.0
    moved, again = [], evidence.again(call, **{name: other})
    for before, after in zip((call.right, call.seen), again, strict=True):
        a, b = parts(before)[0], parts(after)[0]
        tensors = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dim() > 1
        if not tensors or a.shape != b.shape or query >= a.size(-2):
            return None
        moved.append(((b - a).double().abs() > 1e-5).any(-1)[..., query])
    return tuple(moved) if moved[0].shape == moved[1].shape else None


@claim(r"query (\d+) (?:reads key (?=\d)|gives key (?=\d+ some weight))(\d+)")
def _too_much(found, evidence):
    return _reads(evidence, int(found[1]), int(found[2]), True)


@claim(r"query (\d+) (?:does not read key (?=\d)|gives key (?=\d+ no weight))(\d+)")
def _too_little(found, evidence):
    return _reads(evidence, int(found[1]), int(found[2]), False)


@claim(rf"(?:here some add up to|the weights of query (?P<i>\d+) sum to) {NUMBER}(?:\.|,|;|$)")
def _sums(found, evidence):
    told, name = number(found[2]), _argument(evidence, "value", "values")
    sums = [x for call in evidence.calls for x in _sums_of(evidence, call, name)]
    if found["i"]:
        place = int(found["i"])
        sums = [x[..., place] for x in sums if x.dim() > 0 and place < x.size(-1)]
    near = [bool(((x - told).abs() <= 0.01 * abs(told) + 1e-3).any()) for x in sums]
    return any(near) if near else None


def _sums_of(evidence: Evidence, call: Call, name: str) -> list[Tensor]:
    """The sums of the rows of weights: of those that mix values of 1, and of those that are returned."""
    ones = {x: torch.ones_like(call.given[x]) for x in (name, PAST) if x in call.given}
    mixed = evidence.again(call, **ones)[1] if name else None
    made, returned = (
        [x.double() for x in several if isinstance(x, Tensor) and x.dim() > 1]
        for several in (parts(mixed)[:1], parts(call.seen)[1:])
    )
    return [x.mean(-1) for x in made] + [x.sum(-1) for x in returned]


SCORES = rf"scores (?:that reach the softmax are )?{NUMBER} times"


@claim(rf"{SCORES} (?:what they|as large as they) should be")
def _scores(found, evidence):
    names = [_argument(evidence, name) for name in ("query", "key")]
    if not all(names) or not all(_products(evidence, call, *names) for call in evidence.wrong):
        return None
    factor = number(found[1])
    return any(
        alike(evidence.again(call, query=call.given["query"] * factor)[0], call.seen, 0.05)
        for call in evidence.wrong
    )


def _products(evidence: Evidence, call: Call, query: str, key: str) -> bool:
    """Are scores products of queries and keys, so that a factor may stand at either?"""
    other = {query: call.given[query] * 2, key: call.given[key] / 2}
    return alike(evidence.again(call, **other)[0], call.right)


@claim(r"^The output is right(?:, but|; only) the returned weights are not")
def _only_weights(found, evidence):
    both = [list(pairs(call)) for call in evidence.wrong]
    outputs, weights = ([alike(*x[k]) for x in both if len(x) > k] for k in (0, 1))
    return all(outputs) and not all(weights)


@claim(r"^Right in all calls: ([\w ,]+)\. ")
def _some_right(found, evidence):
    names = re.split(r" and |, ", found[1])
    if not set(names) <= set(evidence.names):
        return None
    places_of = [evidence.names.index(name) for name in names]
    both = [list(pairs(call)) for call in evidence.calls]
    return all(alike(*x[k]) for x in both for k in places_of if k < len(x))


@claim("With one more feature in the values, all others of the output change")
def _width_counts(found, evidence):
    for call in evidence.calls:
        value = call.given["value"]
        wider = torch.cat([value, value.flip(-1)[..., :1]], -1)
        before, (right, seen) = (call.right, call.seen), evidence.again(call, value=wider)
        one, other, right, seen = (parts(x)[0] for x in (*before, right, seen))
        if isinstance(seen, Tensor) and isinstance(other, Tensor):
            assert alike(one, right[..., :-1])
            if not alike(other, seen[..., :-1]):
                return True
    return False


@claim(r"all right rows of weights are there, but in other places")
def _rows_elsewhere(found, evidence):
    """The same weights in another order are the same numbers in all."""
    maps = [parts(x)[-1].double().flatten().sort().values for y in wrong_pairs(evidence) for x in y]
    same = [alike(a, b) for a, b in zip(maps[::2], maps[1::2], strict=True) if len(a) == len(b)]
    return any(same) or None
