"""Exercise zigzag_schedule: what a machine of the ring computes at each step, when it holds an early and a late piece."""

from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case

SKIPPED, DIAGONAL, WHOLE = 0, 1, 2


def definition(rank, world):
    """Pair by pair: may tokens of the one piece read tokens of the other, pieces being 2 tokens long?"""

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


def zigzag(rank, world):
    return rank, 2 * world - 1 - rank


def compare(query, key):
    """A piece that is earlier is read as a whole, the same one up to the diagonal, a later one not at all."""
    return DIAGONAL if query == key else WHOLE if key < query else SKIPPED


def schedule(
    rank, world, holds=zigzag, source=lambda rank, step, world: (rank - step) % world,
    kind=compare, finish=lambda table: table,
):  # fmt: skip
    """A right answer in steps; a mistake replaces one of them."""
    own, table = holds(rank, world), torch.zeros(world, 2, 2, dtype=torch.int64)
    for step in range(world):
        for b, key in enumerate(holds(source(rank, step, world), world)):
            for a, query in enumerate(own):
                table[step, a, b] = kind(query, key)
    return finish(table)


ACCEPTED = Accepted(step_by_step=schedule)


@ACCEPTED.add
def by_the_three_cases(rank, world):
    """Two whole blocks a step, whoever sends."""
    table = torch.tensor([[0, 0], [2, 2]]).repeat(world, 1, 1)
    table[0] = torch.tensor([[1, 0], [2, 1]])
    table[1 : rank + 1] = torch.tensor([[2, 0], [2, 0]])
    return table


@ACCEPTED.add
def by_broadcasting(rank, world):
    source = (rank - torch.arange(world)) % world
    keys = torch.stack([source, 2 * world - 1 - source], dim=-1)[:, None, :]
    queries = torch.tensor([rank, 2 * world - 1 - rank])[None, :, None]
    return (keys < queries).int() * 2 + (keys == queries).int()


@ACCEPTED.add
def nested_lists(rank, world):
    def pieces(r):
        return r, 2 * world - r - 1

    found = []
    for step in range(world):
        them = pieces(rank - step if rank >= step else rank - step + world)
        found.append([[1 + (q > k) if q >= k else 0 for k in them] for q in pieces(rank)])
    return torch.tensor(found)


@ACCEPTED.add
def by_signs_as_floats(rank, world):
    order = torch.arange(2 * world, dtype=torch.float32)
    signs = torch.sign(order[:, None] - order) + 1  # of every query piece and key piece
    rows = [rank, 2 * world - 1 - rank]
    sources = [(rank + world - step) % world for step in range(world)]
    return torch.stack([signs[rows][:, [s, 2 * world - 1 - s]] for s in sources])


MISTAKES = Mistakes(Mistake(says, partial(schedule, **steps)) for says, steps in (
    ("Every machine holds two neighbouring pieces, 2r and 2r + 1; zigzag gives it an early and a late one.",
     {"holds": lambda r, w: (2 * r, 2 * r + 1)}),
    ("Rank r holds the pieces r and r + world; the second one counts from the end: 2 * world - 1 - r.",
     {"holds": lambda r, w: (r, r + w)}),
    ("This is as if the late piece stood first, or as if queries read what comes after them; piece r is number 0, the "
     "late one number 1, and queries read what comes before.", {"holds": lambda r, w: (2 * w - 1 - r, r)}),
    ("Ranks count from 0: rank 0 holds the first piece and the last one.",
     {"holds": lambda r, w: (r + 1, 2 * w - 2 - r)}),
    ("The keys come from the other side: at step s they are those of rank r - s.",
     {"source": lambda r, s, w: (r + s) % w}),
    ("The first step has the keys of the neighbour; at step 0 a process works with its own.",
     {"source": lambda r, s, w: (r - s - 1) % w}),
    ("The keys of step s are taken to be those of rank s; they have travelled s places to rank r.",
     {"source": lambda r, s, w: s}),
    ("Behind rank 0 stands the last rank: take r - s modulo world.", {"source": lambda r, s, w: r - s}),
    ("A piece with itself is marked as read as a whole; the causal mask hides half of it, so it is 1.",
     {"kind": lambda q, k: WHOLE * (k <= q)}),
    ("A piece with itself is skipped; a token reads itself, so it is 1.", {"kind": lambda q, k: WHOLE * (k < q)}),
    ("Nothing is skipped; a piece of later keys is not read at all.",
     {"kind": lambda q, k: DIAGONAL if q == k else WHOLE}),
    ("All that is read is marked 1; a piece of earlier keys needs no mask, so it is 2.",
     {"kind": lambda q, k: int(k <= q)}),
    ("1 and 2 are exchanged: 1 is the diagonal, 2 is a whole block.",
     {"kind": lambda q, k: (SKIPPED, WHOLE, DIAGONAL)[compare(q, k)]}),
    ("Queries and keys are exchanged: [step, a, b] has the own piece of queries a first.",
     {"finish": lambda table: table.mT}),
    ("Of the own keys, only the two pieces with themselves are marked; the late piece reads the early one, too.",
     {"finish": lambda table: table * torch.cat([torch.eye(2)[None], torch.ones(len(table) - 1, 2, 2)]).long()}),
    ("Every step is taken to be like step 0; only there the keys are one's own.",
     {"finish": lambda table: table[:1].expand_as(table)}),
    ("The steps stand in reverse order; step 0 is the first one, with the own keys.",
     {"finish": lambda table: table.flip(0)}),
    ("These are booleans; return whole numbers, 0, 1 or 2.", {"finish": lambda table: table > 0}),
    ("The two axes of the pieces are joined; the shape is (world, 2, 2).", {"finish": lambda table: table.flatten(1)}),
    ("This is one step; return all of them, (world, 2, 2).", {"finish": lambda table: table[0]}),
    ("These are numbers of pairs for each step; return a mark for each pair of pieces, (world, 2, 2).",
     {"finish": lambda table: (table > 0).sum((1, 2))}),
))  # fmt: skip

EXERCISE = Exercise(
    name="zigzag_schedule",
    answer="schedule",
    judge=Calls(definition, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
