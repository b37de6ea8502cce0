"""Exercise zigzag_schedule: what a machine of the ring computes at each step, with two pieces."""

import torch

from attncourse.grading.exercise import Calls, Case, Exercise, seeded
from attncourse.grading.explain.kinds import kinds
from attncourse.grading.numerals import as_tensor

SKIPPED, DIAGONAL, WHOLE = 0, 1, 2


def definition(rank, world):
    """Pair by pair: may tokens of one piece read those of the other? Pieces are 2 tokens long."""

    def holds(r):
        return [[2 * piece, 2 * piece + 1] for piece in (r, 2 * world - 1 - r)]

    def kind(queries, keys):
        seen = [j <= i for i in queries for j in keys]
        return WHOLE if all(seen) else DIAGONAL if any(seen) else SKIPPED

    arriving = [holds((rank - step) % world) for step in range(world)]
    marks = [[[kind(q, k) for k in keys] for q in holds(rank)] for keys in arriving]
    return torch.tensor(marks).double()


def cases(seed: int) -> list[Case]:
    """Every rank of small rings, and one of a larger ring, drawn."""
    g = seeded(seed)
    pairs = [(r, w) for w in (3, 1, 2, 4) for r in range(w)]
    world = int(torch.randint(5, 12, (), generator=g))
    pairs.append((int(torch.randint(1, world - 1, (), generator=g)), world))
    return [Case(f"rank {r} of {w}", (r, w), gradients=False) for r, w in pairs]


def right(rank, world):
    found = torch.zeros(world, 2, 2, dtype=torch.int64)
    for step in range(world):
        source = (rank - step) % world
        for a, query in enumerate((rank, 2 * world - 1 - rank)):
            for b, key in enumerate((source, 2 * world - 1 - source)):
                found[step, a, b] = (key < query) + (key <= query)
    return found


def rules(expected, seen, rank, world):
    """Own pieces and those that arrive; in brackets stand step, piece of queries, piece of keys."""
    first = torch.arange(world)[:, None, None] == 0
    sent = "pieces r and 2 * world - 1 - r meet those of rank r - s"
    for steps, which in ((first, "the own pieces meet at step 0"), (~first, sent)):
        for mark, says in (
            (DIAGONAL, "a piece that meets itself is 1, for half of it is hidden"),
            (SKIPPED, "a piece of later keys is skipped, 0"),
            (WHOLE, "a piece of earlier keys is read as a whole, 2"),
        ):
            yield f"{which}, and {says}", steps & (expected == mark)


EXERCISE = Exercise(
    name="zigzag_schedule",
    answer="schedule",
    judge=Calls(definition, cases, gradients=False, reads=as_tensor),
    right=right,
    axes=("s q y",),
    explain=(kinds(rules),),
)
