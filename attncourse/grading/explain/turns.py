"""Rotary positions: as if it stood where is a token turned?"""

import cmath
from collections.abc import Callable

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
        call = asked.shaped[0] if len(asked.shaped) == len(asked.wrong) > 0 else None
        results = zip(names.split(), call.case.args, call.expected, call.seen) if call else ()  # noqa: B905
        for name, given, right, seen in results:
            wrong = apart(right, seen).unflatten(-1, (-1, 2)).any(-1)
            if wrong.any():
                b, h, t, c = wrong.nonzero()[0].tolist()
                before, after = (complex(*x[b, h, t, 2 * c : 2 * c + 2]) for x in (given, seen))
                speed = call.case.args[-1] ** (-2 * c / given.size(-1))
                what = f"pair {c} of the {name} of sample {b}, head {h}, new token {t}"
                at = place(call.case, b, t)
                return f"In the call '{call.label}' {what} {_how(after / before, speed, at)}."
        return ""

    return explainer


def _how(by: complex, speed: float, place: int) -> str:
    """What was done to a pair, and what should have been done."""
    if abs(abs(by) - 1) > NEAR:
        return (
            "changes its length, which no turn does: look at which numbers make a pair, and at the "
            "formula of a turn"
        )
    near = [k for k in TRIED if abs(cmath.exp(1j * k * speed) - by) < NEAR]
    if len(near) == 1:
        return f"is turned as if it stood at {near[0]}; it stands at {place}"
    return f"is turned by {cmath.phase(by):.4g} instead of {place} times {speed:.4g} radians"
