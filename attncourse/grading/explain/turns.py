"""Rotary positions: as if it stood where is a token turned?"""

import cmath
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attncourse.grading.compare import difference, same
from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.places import apart
from attncourse.grading.observe import Case

TRIED = range(-100, 201)  # positions
NEAR = 1e-3


def turned(names: str, place: Callable[[Case, int, int], int]) -> Callable[[Asked], str]:
    """An explainer for results (b, h, t, d), each an argument with its pairs 2 c, 2 c + 1 turned.

    Args:
        names: of the arguments that are turned, the first ones; the last is the base of the angles.
        place: (case, sample, token) -> where the token stands.
    """

    def explainer(asked: Asked) -> str:
        if not asked.shaped or len(asked.shaped) < len(asked.wrong):
            return ""
        call = asked.shaped[0]
        results = zip(names.split(), call.case.args, call.expected, call.seen)  # noqa: B905
        for name, given, right, seen in results:
            wrong = apart(right, seen).unflatten(-1, (-1, 2)).any(-1)
            if wrong.any():
                b, h, t, c = wrong.nonzero()[0].tolist()
                by = (_pairs(seen) / _pairs(given))[..., c]
                speed = call.case.args[-1] ** (-2 * c / given.size(-1))
                pair = f"In the call '{call.label}' pair {c} of the {name}"
                if (by - 1).abs().max() < NEAR:
                    should = f"it should turn by {speed:.4g} for each position"
                    return f"{pair} comes back as it came, in all tokens; {should}."
                how = _how(complex(by[b, h, t]), speed, place(call.case, b, t))
                return f"{pair} of sample {b}, head {h}, new token {t} {how}."
        return ""

    return explainer


def _pairs(x: Tensor) -> Tensor:
    """Neighbours as complex numbers."""
    return torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())


def _how(by: complex, speed: float, place: int) -> str:
    """What was done to a pair, and what should have been done."""
    if abs(abs(by) - 1) > NEAR:
        return "changes its length, as no turn does: look at what makes a pair, and how it turns"
    near = [k for k in TRIED if abs(cmath.exp(1j * k * speed) - by) < NEAR]
    if len(near) == 1:
        return f"is turned as if it stood at {near[0]}; it stands at {place}"
    return f"is turned by {cmath.phase(by):.4g} instead of {place} times {speed:.4g} radians"


def turned_step(asked: Asked) -> str:
    """Where the new tokens of a step of decoding stand, of which c and c + d / 2 are a pair.

    Its arguments are (query, key, value, past_key, past_value), its results (output, keys, values).
    """
    call = asked.shaped[0] if asked.shaped and len(asked.shaped) == len(asked.wrong) else None
    if call is None:
        return ""
    past, (_, keys, values) = call.case.args[3].size(2), call.expected
    if difference(keys[:, :, :past], call.seen[1][:, :, :past]) or difference(values, call.seen[2]):
        return ""
    what, number, first = ("key", 1, past) if difference(keys, call.seen[1]) else ("query", 0, 0)
    for t, token in enumerate(call.case.args[number].unbind(2)):
        right, seen = (x[number][:, :, first + t] for x in (call.expected, call.seen))
        if difference(right, seen):
            read = partial(_read, keys[:, :, : past + t + 1], values[:, :, : past + t + 1])
            at = _position(token, read if what == "query" else lambda x: x, seen)
            told = f"new {what} {t} is turned by position {at}; its own is {past + t}"
            if at is None and what == "query":
                return ""
            if what == "key" and not difference(token, seen):
                told = f"new key {t} comes back as it came; it should turn by {past + t} positions"
            told = told if at is not None else _first_pair(token, seen, t, past + t)
            return f"In the call '{call.label}' {told}."
    return ""


def _first_pair(token: Tensor, seen: Tensor, number: int, place: int) -> str:
    """How the first pair of a key is turned that is turned in another way than it should be."""
    before, after = (torch.complex(*x[0, 0].double().chunk(2, -1)).tolist() for x in (token, seen))
    speeds = [1e4 ** (-c / len(before)) for c in range(len(before))]
    for c, (one, other, speed) in enumerate(zip(before, after, speeds, strict=True)):
        if abs(other / one - cmath.exp(1j * place * speed)) > NEAR:
            return f"pair {c} of new key {number} {_how(other / one, speed, place)}"
    return f"new key {number} is wrong in some samples or heads, and right in others"


def _read(keys: Tensor, values: Tensor, query: Tensor) -> Tensor:
    """What attention makes of queries."""
    query, keys, values = query.double(), keys.double(), values.double()
    return (query @ keys.mT * query.size(-1) ** -0.5).softmax(-1) @ values


def _position(x: Tensor, made: Callable[[Tensor], Tensor], wrong: Tensor) -> int | None:
    """The position that makes this of one token, if it is one of -32 to 63."""
    at = torch.arange(-32, 64)
    turned = made(rotary(x[:, :, None].expand(-1, -1, len(at), -1), at)).unbind(2)
    return next((k - 32 for k, y in enumerate(turned) if same(y, wrong, 1e-4)), None)


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Pairs c and c + d / 2, turned by position times 10,000 ** (-2 c / d)."""
    angles = positions[:, None] * 1e4 ** (-2 * torch.arange(x.size(-1) // 2) / x.size(-1))
    (a, b), c, s = x.chunk(2, -1), angles.cos(), angles.sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)
