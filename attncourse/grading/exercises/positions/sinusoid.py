"""Exercise sinusoid: the hands of many clocks, all sines first."""

import math

import numpy as np
import torch

from attncourse import spec
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.noticing import Noticing, apart, axes
from attncourse.grading.observe import Case


def definition(positions, width, base):
    """The numbers of `spec.sinusoidal`, row by row: those of the sines, then those of the cosines."""
    rows = [spec.sinusoidal(position, width, base) for position in positions.tolist()]
    return torch.tensor([row[::2] + row[1::2] for row in rows], dtype=torch.float64)


def cases(seed: int) -> list[Case]:
    """Positions from 0, with gaps, backwards; bases that differ from 10,000; one clock."""
    g = seeded(seed)
    some = torch.randperm(60, generator=g)
    calls = (
        ("positions 0 to 4, width 8, base 10,000", torch.arange(5), 8, 10_000.0),
        ("positions 7, 3 and 3, width 6, base 50", torch.tensor([7, 3, 3]), 6, 50.0),
        ("11 positions in any order, width 14, base 300", some[:11], 14, 300.0),
        ("one clock, 4 positions", some[11:15], 2, 10_000.0),
        ("one position, width 10, base 2.5", some[15:16], 10, 2.5),
    )
    return [Case(what, rest, gradients=False) for what, *rest in calls]


def waves(positions, width, base, power=lambda i, d: -2 * i / d, at=lambda p: p, turn=1.0):
    """The angles (n, width / 2), with what people change in them."""
    i = torch.arange(width // 2).double()
    return turn * at(positions)[:, None] * base ** power(i, width)


def joined(angles):
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


def halves(case, expected, seen):
    """Which clocks are wrong, among the sines and among the cosines."""
    says, width = [], expected.size(1) // 2
    for name, one, other in zip(
        ("sines", "cosines"), expected.split(width, 1), seen.split(width, 1), strict=True
    ):
        if not apart(one, other).any():
            says.append(f"the {name} are right")
        elif where := axes("row clock")(case, one, other).partition("stands at ")[2]:
            says.append(f"what is wrong among the {name} stands at {where.removesuffix('.')}")
    return f"In the first call that is wrong, {'; '.join(says)}." if says else ""


ACCEPTED = Accepted(angles_then_both=lambda p, d, base: joined(waves(p, d, base)))


@ACCEPTED.add
def loops(positions, width, base):
    out = torch.zeros(len(positions), width)
    for row, p in enumerate(positions):
        for i in range(width // 2):
            angle = p.item() / base ** (2 * i / width)
            out[row, i], out[row, i + width // 2] = math.sin(angle), math.cos(angle)
    return out


@ACCEPTED.add
def exponent_of_a_logarithm(positions, width, base):
    turn = torch.exp(torch.arange(0, width, 2) * (-math.log(base) / width))
    angles = torch.outer(positions.float(), turn)
    return torch.hstack([torch.sin(angles), torch.cos(angles)])


@ACCEPTED.add
def numpy_angles(positions, width, base):
    angles = positions.numpy()[:, None] / np.power(base, np.arange(0, width, 2) / width)
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


@ACCEPTED.add
def complex_hands(positions, width, base):
    hands = torch.polar(
        torch.ones(len(positions), width // 2).double(), waves(positions, width, base)
    )
    return torch.cat([hands.imag, hands.real], 1)


MISTAKES = Mistakes(Mistake(says, lambda p, d, base, change=change: change(waves(p, d, base))) for says, change in (
    ("Sines and cosines alternate; here all sines come first, then all cosines.",
     lambda a: torch.stack([a.sin(), a.cos()], -1).flatten(1)),
    ("The cosines come first; the sines do.", lambda a: torch.cat([a.cos(), a.sin()], -1)),
    ("Both halves hold sines; the second half holds cosines.", lambda a: torch.cat([a.sin(), a.sin()], -1)),
    ("Both halves hold cosines; the first half holds sines.", lambda a: torch.cat([a.cos(), a.cos()], -1)),
    ("The clocks run from slow to fast; the fastest comes first.", lambda a: joined(a.flip(-1))),
    ("Only the sines are returned; the cosines follow them.", lambda a: a.sin()),
    ("The angles themselves are returned; a hand is the sine and the cosine of its angle.",
     lambda a: torch.cat([a, a], -1)),
    ("The result is (width, n); positions are rows: (n, width).", lambda a: joined(a).T),
    ("There is an axis for a batch; return (n, width).", lambda a: joined(a)[None]),
    ("Sines and cosines are returned apart; join them along the last axis.", lambda a: (a.sin(), a.cos())),
    ("Sines and cosines stand below each other; join them along the last axis.",
     lambda a: torch.cat([a.sin(), a.cos()], 0)),
    ("The hands turn the wrong way: the angles are negative.", lambda a: joined(-a)),
    ("The cosines have the wrong sign.", lambda a: torch.cat([a.sin(), -a.cos()], -1)),
    ("Cosines and sines alternate; here all sines come first, then all cosines.",
     lambda a: torch.stack([a.cos(), a.sin()], -1).flatten(1)),
    ("The rows stand in reverse order; keep that of the positions.", lambda a: joined(a.flip(0))),
    ("Each vector is divided by its length; sines and cosines stay as they are.",
     lambda a: joined(a) / math.sqrt(a.size(1))),
))  # fmt: skip
MISTAKES += [Mistake(says, lambda p, d, base, to=to: joined(waves(p, d, base, **to))) for says, to in (
    ("The exponent is -c / width, so the slowest clock is much too fast; it is -2 c / width.",
     {"power": lambda i, d: -i / d}),
    ("The exponent is positive, so the clocks get faster; it is -2 c / width.", {"power": lambda i, d: 2 * i / d}),
    ("The slowest clock turns by 1 / base: the exponent is divided by width - 2 instead of width.",
     {"power": lambda i, d: -2 * i / max(d - 2, 1)}),
    ("The exponent starts at clock 1; clock 0 turns by 1 radian per position.",
     {"power": lambda i, d: -2 * (i + 1) / d}),
    ("The exponent is not divided by width.", {"power": lambda i, d: -2 * i}),
    ("The exponent is -4 c / width: it is divided by width / 2, and doubled; it is -2 c / width.",
     {"power": lambda i, d: -4 * i / d}),
    ("The exponent is rounded to a whole number, so most clocks run alike: // instead of /.",
     {"power": lambda i, d: -(2 * i // d)}),
    ("Positions are counted from the first of them; use them as they are given.", {"at": lambda p: p - p[0]}),
    ("The positions are divided by the largest; use them as they are given.", {"at": lambda p: p / p.max().clamp(min=1)}),
    ("Each position is one too small; use them as they are given.", {"at": lambda p: p - 1}),
    ("Positions are counted from 1 here; use them as they are given.", {"at": lambda p: p + 1}),
    ("The rows are numbered 0, 1, 2 ...; the positions that are given can have gaps.",
     {"at": lambda p: torch.arange(len(p))}),
    ("The positions are sorted; keep the order in which they are given.", {"at": lambda p: p.sort().values}),
    ("The angle is multiplied by 2 pi; clock 0 turns by 1 radian per position.", {"turn": 2 * math.pi}),
    ("The angles are turned into degrees; sin and cos take radians.", {"turn": 180 / math.pi}),
)] + [
    Mistake("The base is always 10,000; use the one that is given.", lambda p, d, base: joined(waves(p, d, 1e4))),
    Mistake("The base is e, whatever is given.", lambda p, d, base: joined(waves(p, d, math.e))),
    Mistake("The base is made a whole number; use it as it is given.", lambda p, d, base: joined(waves(p, d, int(base)))),
    Mistake("The logarithm of base is to base 2, but exp belongs to the natural one, math.log.",
            lambda p, d, base: joined(waves(p, d, math.exp(math.log2(base))))),
    Mistake("The logarithm of base is to base 10, but exp belongs to the natural one, math.log.",
            lambda p, d, base: joined(waves(p, d, math.exp(math.log10(base))))),
]  # fmt: skip

EXERCISE = Exercise(
    name="sinusoid",
    judge=Noticing(definition, cases, gradients=False, look=halves),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
