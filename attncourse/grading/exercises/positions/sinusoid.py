"""Exercise sinusoid: the hands of many clocks, all sines first."""

import torch

from attncourse import spec
from attncourse.grading.compare import same
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded


def definition(positions, width, base):
    """`spec.sinusoidal`, row by row: its sines, then its cosines."""
    rows = [spec.sinusoidal(position, width, base) for position in positions.tolist()]
    return torch.tensor([row[::2] + row[1::2] for row in rows], dtype=torch.float64)


def cases(seed: int) -> list[Case]:
    """Positions from 0, with gaps, backwards; bases that differ from 10,000; one clock."""
    some = torch.randperm(60, generator=seeded(seed))
    calls = (
        ("positions 0 to 4, width 8, base 10,000", torch.arange(5), 8, 10_000.0),
        ("positions 7, 3 and 3, width 6, base 50", torch.tensor([7, 3, 3]), 6, 50.0),
        ("11 positions in any order, width 14, base 300", some[:11], 14, 300.0),
        ("one clock, 4 positions", some[11:15], 2, 10_000.0),
        ("one position, width 10, base 2.5", some[15:16], 10, 2.5),
    )
    return [Case(what, rest, gradients=False) for what, *rest in calls]


EXPONENTS, ANGLES = "the exponents", "the angles"


@Dataflow
def right(positions, width, base):
    c = torch.arange(width // 2).double()
    exponents = yield EXPONENTS, -2 * c / width
    speeds = yield "the speeds of the clocks", base**exponents
    angles = yield ANGLES, positions[:, None] * speeds
    sines = yield "the sines", angles.sin()
    cosines = yield "the cosines", angles.cos()
    return torch.cat([sines, cosines], -1)


def halves(asked):
    """What stands in the half of the sines and in that of the cosines."""
    says = {"" for x in asked.wrong if x not in asked.far}
    for x in asked.shaped:
        right, seen = x.expected.chunk(2, -1), x.seen.double().chunk(2, -1)
        good = [same(*both) for both in zip(right, seen, strict=True)]
        if any(good):
            wrong = (
                "The sines are right, the cosines"
                if good[0]
                else "The cosines are right, the sines"
            )
            says.add(f"{wrong} are not.")
        elif same(right, seen[::-1]):
            says.add("The cosines come first; the sines do.")
        else:
            says.add("")
    return says.pop() if len(says) == 1 else ""


EXERCISE = Exercise(
    name="sinusoid",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("r d",),
    explain=(halves,),
    ideas=[
        Mistake("Sines and cosines alternate; all sines come first, then all cosines.",
                lambda p, d, b: torch.stack(right(p, d, b).chunk(2, -1), -1).flatten(1)),
        right.but("The angles are turned into degrees; sin and cos take radians.",
                  ANGLES, torch.rad2deg),
        right.but("The angles are multiplied by 2 pi; clock 0 turns by 1 radian per position.",
                  ANGLES, lambda x: 2 * torch.pi * x),
    ],
)  # fmt: skip
