"""Exercise zigzag_schedule: what a machine of the ring computes at each step, with two pieces."""

import torch

from attncourse.grading.exercise import Calls, Case, Exercise, Mistake, seeded
from attncourse.grading.explain.kinds import kinds

SKIPPED, DIAGONAL, WHOLE = 0, 1, 2


def definition(rank, world):
    """Pair by pair: may tokens of one piece read those of the other? Pieces are 2 tokens long."""

    def holds(r):
        return [[2 * piece, 2 * piece + 1] for piece in (r, 2 * world - 1 - r)]

    def kind(queries, keys):
        seen = [j <= i for i in queries for j in keys]
        return WHOLE if all(seen) else DIAGONAL if any(seen) else SKIPPED

    arriving = [holds((rank - step) % world) for step in range(world)]
    return torch.tensor([[[kind(q, k) for k in keys] for q in holds(rank)] for keys in arriving])


def cases(seed: int) -> list[Case]:
    """Every rank of small rings, and one of a larger ring, drawn."""
    g = seeded(seed)
    pairs = [(r, w) for w in (3, 1, 2, 4) for r in range(w)]
    world = int(torch.randint(5, 12, (), generator=g))
    pairs.append((int(torch.randint(1, world - 1, (), generator=g)), world))
    return [Case(f"rank {r} of {w}", (r, w), gradients=False) for r, w in pairs]


def right(rank, world, holds=lambda r, w: (r, 2 * w - 1 - r), source=lambda r, s, w: (r - s) % w):
    """By comparison of the pieces; a mistake has other pieces, or those of another rank."""
    found = torch.zeros(world, 2, 2, dtype=torch.int64)
    for step in range(world):
        for b, key in enumerate(holds(source(rank, step, world), world)):
            for a, query in enumerate(holds(rank, world)):
                found[step, a, b] = (key < query) + (key <= query)
    return found


def rules(expected, seen, rank, world):
    """Why a pair of pieces is skipped, cut or whole; in brackets step, queries and keys."""
    pieces = "pieces r and 2 * world - 1 - r, and at step s arrive those of rank r - s"
    for kind, says in (
        (DIAGONAL, "a piece that meets itself is 1: a token reads itself, and half is hidden"),
        (SKIPPED, "a piece of later keys is skipped, 0"),
        (WHOLE, "a piece of earlier keys is read as a whole, 2"),
    ):
        yield f"{says}, with {pieces}", expected == kind


def of(says, **changes):
    return Mistake(says, lambda rank, world: right(rank, world, **changes))


EXERCISE = Exercise(
    name="zigzag_schedule",
    answer="schedule",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("s n m",),
    explain=(kinds(rules),),
    ideas=[
        of("Every machine holds two neighbouring pieces, 2r and 2r + 1; zigzag gives it an early "
           "and a late one.", holds=lambda r, w: (2 * r, 2 * r + 1)),
        of("Rank r holds the pieces r and r + world; the second one counts from the end: "
           "2 * world - 1 - r.", holds=lambda r, w: (r, r + w)),
        of("The keys come from the other side: at step s they are those of rank r - s.",
           source=lambda r, s, w: (r + s) % w),
        Mistake("Queries and keys are exchanged: [step, a, b] has the piece of queries first.",
                lambda r, w: right(r, w).mT),
    ],
)  # fmt: skip
