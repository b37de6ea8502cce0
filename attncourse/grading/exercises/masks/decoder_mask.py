"""Exercise decoder_mask: causal and padding at once, one mask for a batch."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.exercises.masks._told import Told, wrong_pair
from attncourse.grading.inputs import seeded
from attncourse.grading.mistakes import mistakes_of, rules
from attncourse.grading.recipe import Given, Recipe, triangle


def definition(lengths, n):
    """visible(b, 0, i, j) = j <= i and j < lengths(b)."""
    return torch.tensor([
        [[[j <= i and j < length for j in range(n)] for i in range(n)]] for length in lengths.tolist()
    ])  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Full and empty samples, as many samples as positions, a batch without a full sample."""
    drawn = torch.randint(1, 7, (5,), generator=seeded(seed)).tolist()
    lengths = ([7, 3, 0], 7), ([4, 9], 11), ([2, 4, 1, 3], 4), ([2], 3), ([260], 262), (drawn, 7)
    return [
        Case(f"lengths {some} in {n} positions", (torch.tensor(some), n), gradients=False)
        for some, n in lengths
    ]


def given(lengths, n, real=lambda i, j, length: j < length):
    """Attention of n positions; only its mask is asked for, made of a causal and a padding rule."""
    x, j = torch.zeros(n, 1), torch.arange(n)
    real = real(j[:, None], j, lengths[:, None, None, None])
    return Given(x, x, x, 0, rest=real.expand(len(lengths), 1, n, n))


RIGHT = Recipe(given, mask=lambda scores, x: scores, answer=lambda o, w, s, x: x.visible & x.rest)
ACCEPTED = Accepted(
    triangle_and_padding=RIGHT,
    two_comparisons=lambda lengths, n: (torch.arange(n) <= torch.arange(n)[:, None])
    & (torch.arange(n) < lengths[:, None, None, None]),
)  # fmt: skip


@ACCEPTED.add
def loop_over_samples(lengths, n):
    mask = torch.ones(len(lengths), 1, n, n).tril()
    for sample, length in zip(mask, lengths.tolist(), strict=True):
        sample[..., length:] = 0
    return mask == 1


@ACCEPTED.add
def last_visible_key(lengths, n):
    """The last key that query i may read is the smaller of i and length - 1."""
    last = torch.minimum(torch.arange(n), lengths[:, None] - 1)
    return (torch.arange(n) <= last[..., None]).unsqueeze(1)


@ACCEPTED.add
def hidden_first(lengths, n):
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    pad = torch.arange(n).expand(len(lengths), n) >= lengths.view(-1, 1)
    return torch.logical_or(future, pad.view(-1, 1, 1, n)).logical_not()


MISTAKES = Mistakes(mistakes_of(RIGHT, rules, without=("top left", "bottom right", "square mask")))
MISTAKES += [RIGHT.but(says, given=partial(given, real=real)) for says, real in (
    ("Padding is not hidden: only the causal rule is applied.", lambda i, j, length: j < length + 99),
    ("One padding key too many is visible: a key is real when j < length, not j <= length.",
     lambda i, j, length: j <= length),
    ("The last real key of each sample is hidden: real means j < length.", lambda i, j, length: j < length - 1),
    ("The rows of padding queries are empty: the rule looks at the queries, but only keys are to be hidden.",
     lambda i, j, length: i < length),
    ("The padding part marks padding as visible; invert it before you combine the two.",
     lambda i, j, length: j >= length),
    ("Padding is hidden on the left; here it stands on the right.", lambda i, j, length: j >= i.numel() - length),
    ("Every sample gets the length of the longest one.", lambda i, j, length: j < length * 0 + length.max()),
)] + [RIGHT.but(says, answer=lambda o, w, s, x, change=change: change(x.visible & x.rest)) for says, change in (
    ("True marks the hidden pairs here; it must mark the pairs that may attend.", torch.logical_not),
    ("The shape is (b, n, n); without an axis for heads it is one mask per head.", lambda mask: mask[:, 0]),
    ("The samples stand on the axis of the heads; the shape is (b, 1, n, n).", lambda mask: mask.transpose(0, 1)),
    ("The mask holds ones and zeros; its dtype must be torch.bool.", torch.Tensor.long),
    ("Zeros and minus infinities are a mask to be added; return booleans.",
     lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -math.inf)),
)] + [
    RIGHT.but("The causal part marks the future as visible; invert it before you combine the two.",
              rule=lambda n, m, k: ~triangle(n, m, k)),
    RIGHT.but("A pair is visible when either rule allows it; both must (and, not or).",
              answer=lambda o, w, s, x: x.visible | x.rest),
    RIGHT.but("The mask is as long as the longest sample; it must have n queries and n keys.",
              given=lambda lengths, n: given(lengths, int(lengths.max()))),
]  # fmt: skip

EXERCISE = Exercise(
    name="decoder_mask",
    judge=Told(definition, cases, gradients=False, tells=wrong_pair),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
