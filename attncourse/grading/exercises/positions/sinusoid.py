"""Exercise sinusoid: the hands of many clocks, all sines first."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded


def definition(positions, width, base):
    """`spec.sinusoidal`, row by row: its sines, then its cosines."""
    rows = [spec.sinusoidal(position, width, base) for position in positions.tolist()]
    return torch.tensor([row[::2] + row[1::2] for row in rows], dtype=torch.float64)


def cases(seed: int) -> list[Case]:
    """Positions from 0, with gaps, backwards; bases that differ from 10,000; one clock."""
    some = torch.randperm(60, generator=seeded(seed))
    calls = (
        ("positions 0 to 4, width 8, base 10,000", torch.arange(5), 8, 10_000.0),
        ("positions 7, 3 and 3, width 6, base 2.5", torch.tensor([7, 3, 3]), 6, 2.5),
        ("11 positions in any order, width 14, base 300", some[:11], 14, 300.0),
        ("positions up to 10,000, one clock", torch.tensor([10_000, 9_999, 5_001]), 2, 50.0),
        ("positions up to 3001", torch.tensor([257, 3001, 2049]), 8, 10_000.0),
    )
    return [Case(what, rest, gradients=False) for what, *rest in calls]


@Dataflow
def right(positions, width, base):
    c = torch.arange(width // 2).double()
    exponents = yield "the exponents", -2 * c / width
    speeds = yield "the speeds of the clocks", base**exponents
    angles = yield "the angles", positions[:, None] * speeds
    sines = yield "the sines", angles.sin()
    cosines = yield "the cosines", angles.cos()
    return torch.cat([sines, cosines], -1)


EXERCISE = Exercise(
    name="sinusoid",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("r d",),
)
