"""Which axis of a result is too long or too short, and as long as what else is it?"""

from typing import Any, NamedTuple

from torch import Tensor

from attncourse.grading.axes import AXES, words
from attncourse.grading.compare import plain
from attncourse.grading.explain.asked import Asked, Wrong, axis_names, tensors


class Pair(NamedTuple):
    """A result of another shape, the right one, and the call."""

    call: Wrong
    right: Tensor
    seen: Tensor


def wrong_lengths(asked: Asked) -> str:
    """The axes of the first result whose lengths are wrong, in most of the wrong calls."""
    results = [tensors(x.expected, x.seen) for x in asked.wrong]
    for number in range(max(map(len, results), default=0)):
        pairs = [Pair(x, *both[number]) for x, both in zip(asked.wrong, results, strict=True)]
        pairs = [x for x in pairs if _other_shape(x.right, x.seen)]
        pairs = [x for x in pairs if x.right.dim() == pairs[0].right.dim()]
        if not pairs or 2 * len(pairs) < len(asked.wrong):
            continue
        letters = axis_names(asked, pairs[0].right, number)
        told = [
            f"{f'the axis of {words(letter)[1]}' if letter in AXES else letter} is {how}"
            for d, letter in enumerate(letters)
            if (how := _how(asked, pairs, d, letters))
        ]
        names = asked.exercise.results
        of = f" of {names[number]}" if number < len(names) else ""
        return f"The shape{of} is wrong: {'; '.join(told)}."
    return ""


def _other_shape(right: Any, seen: Any) -> bool:
    """As many axes, of other lengths?"""
    both = plain(right) and plain(seen)
    return both and right.dim() == seen.dim() > 0 and right.shape != seen.shape


def _how(asked: Asked, pairs: list[Pair], d: int, letters: list[str]) -> str:
    """What is true of the length of an axis in all these calls; '' where it is right."""
    sizes = [(x.right.size(d), x.seen.size(d)) for x in pairs]
    if all(e == s for e, s in sizes):
        return ""
    for length, what in ((0, "empty"), (1, "1 long")):
        if all(s == length for _, s in sizes):
            return what
    terms, factors = {s - e for e, s in sizes}, {s / e for e, s in sizes if e}
    if len(sizes) > 1 and len(terms) == 1:
        term = terms.pop()
        return f"{abs(term)} too {'long' if term > 0 else 'short'}"
    seen = [s for _, s in sizes]
    like = [name for name, numbers in _lengths(asked, pairs, letters) if numbers == seen]
    if len(sizes) > 1 and like:
        return f"as long as {like[0]}"
    if len(sizes) > 1 and len(factors) == 1:
        return f"{factors.pop():.4g} times as long as it should be"
    k = next(k for k, (e, s) in enumerate(sizes) if e != s)
    return f"{seen[k]} long instead of {sizes[k][0]} in the call '{pairs[k].call.label}'"


def _lengths(asked: Asked, pairs: list[Pair], letters: list[str]) -> list[tuple[str, list[int]]]:
    """What an axis may be as long as: whole numbers among the arguments, and the other axes."""
    given = [
        (name, [x.call.case.args[k] for x in pairs])
        for k, name in enumerate(asked.arguments)
        if all(x.call.case and k < len(x.call.case.args) for x in pairs)
    ]
    numbers = [(name, found) for name, found in given if all(type(x) is int for x in found)]
    axes = [
        (f"that of {words(letter)[1]}", [x.right.size(d) for x in pairs])
        for d, letter in enumerate(letters)
        if len(letter) == 1
    ]
    return numbers + axes
