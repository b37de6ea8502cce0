"""The layer with two convolutions as it was found, repaired in part, and slips in one of its convolutions or in both."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import torch

from attncourse.grading.exercises.multi_token._convolved import as_it_is, future
from attncourse.grading.exercises.multi_token._twice import BEHIND, RIGHT

CENTRED = {"above": lambda c_q: (c_q // 2, (c_q - 1) // 2)}
FOUND = (  # what lets the future in: says, of the first convolution, of the second
    ("the future is not set to 0 before the first convolution", {"zero": as_it_is}, {}),
    (
        "the window of the first convolution is centred in the queries and looks at later ones",
        CENTRED,
        {},
    ),
    (
        "the window of the second convolution is centred in the queries and looks at later ones",
        {},
        CENTRED,
    ),
    (
        "the second convolution spreads weights to later keys, and they stay there",
        {},
        {"hide": as_it_is},
    ),
)


def leaks_left() -> Iterator[tuple[str, dict]]:
    """The code as found, repaired in part."""
    for number in range(len(FOUND), 0, -1):
        for left in combinations(FOUND, number):
            first, second = ({k: f for leak in left for k, f in leak[at].items()} for at in (1, 2))
            says = "; ".join(leak[0] for leak in left)
            if number == len(FOUND):
                says = "all three leaks are there, as in the code as found"
            elif left == FOUND[1:3]:
                says = "the window of both convolutions is centred in the queries and looks at later ones"
            yield (
                f"The future still gets in: {says}.",
                {"first": replace(RIGHT.first, **first), "second": replace(BEHIND, **second)},
            )


def before(steps):
    """Other steps of the convolution before the softmax."""
    return {"first": replace(RIGHT.first, **steps)}


def behind(steps):
    """Other steps of the convolution behind it."""
    return {"second": replace(BEHIND, **steps)}


def told(where, mistakes, *changed):
    """The same mistakes, in one of the convolutions or in both."""
    for says, steps in mistakes:
        yield (
            f"{where}: {says[0].lower()}{says[1:]}",
            {k: x for f in changed for k, x in f(steps).items()},
        )


def both_before(query, key, value, kernel, kernel_after):
    """Two convolutions, and then the softmax."""
    scores = BEHIND(BEHIND(RIGHT.score(query, key).tril(), kernel), kernel_after)
    weights = scores.masked_fill(future(*scores.shape[2:]), -math.inf).softmax(-1)
    return weights @ value, weights


def past_only(*inputs):
    """Kernels that weigh no later key, and nothing else is changed."""
    *given, kernel, after = inputs
    cut = [k * (torch.arange(k.size(2)) <= k.size(2) // 2) for k in (kernel, after)]
    first = replace(RIGHT.first, zero=as_it_is)
    return replace(RIGHT, first=first)(*given, *cut)
