"""Exercise repair_plan: a block-sparse plan whose random blocks are few, its ends blind."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.explain.kinds import kinds


def definition(draws, num_random):
    """Block by block: ends and neighbours, then the largest draws among the blocks left."""
    heads, blocks, _ = draws.shape
    plan = torch.zeros(heads, blocks, blocks, dtype=torch.bool)
    for h in range(heads):
        for i in range(blocks):
            read = [j for j in range(blocks) if {i, j} & {0, blocks - 1} or abs(i - j) <= 1]
            left = sorted(set(range(blocks)) - set(read), key=lambda j: -draws[h, i, j])
            plan[h, i, read + left[:num_random]] = True
    return plan


CALLS = (  # special about the call; heads, blocks, random blocks
    ("3 heads, 9 blocks, 2 random", (3, 9, 2)),
    ("4 heads, 11 blocks, 3 random", (4, 11, 3)),
    ("as many heads as blocks", (7, 7, 2)),
    ("2 heads, 8 blocks, 2 random, draws far below zero", (2, 8, 2)),
    ("1 head, 8 blocks, none random", (1, 8, 0)),
    ("3 heads, 5 blocks, more random ones than are left", (3, 5, 6)),
    ("2 heads, 7 blocks, as many random ones as blocks", (2, 7, 7)),
    ("2 heads, 2 blocks", (2, 2, 1)),
    ("4 heads, 6 blocks, the smallest draws are needed", (4, 6, 2)),
)


def cases(seed: int) -> list[Case]:
    """Draws of both signs; in two calls all are below zero, once below what people hide with."""
    g, found = seeded(seed), []
    drawn = tuple(int(torch.randint(*x, (), generator=g)) for x in ((2, 6), (13, 16), (5, 8)))
    for what, (heads, blocks, num_random) in (*CALLS, ("sizes drawn at random", drawn)):
        draws = torch.randn(heads, blocks, blocks, generator=g) - (4 if blocks == 11 else 0)
        draws = draws * 2.0**25 - 2.0**28 if "far below" in what else draws
        if "smallest" in what:
            draws[range(4), [1, 1, 4, 4], [3, 4, 1, 2]] = draws.min() - 1
        found.append(Case(what, (draws, num_random), gradients=False))
    return found


def read_anyway(blocks: int):
    """Neighbours and ends, (blocks, blocks)."""
    i, j = torch.arange(blocks)[:, None], torch.arange(blocks)
    return ((i - j).abs() <= 1) | (i * j == 0) | (torch.maximum(i, j) == blocks - 1)


def rules(expected, seen, draws, num_random):
    """Blocks that are missing, by the rule that asks for them, and blocks that no rule asks for."""
    fixed = read_anyway(draws.size(-1))
    i, j = torch.arange(draws.size(-1))[:, None], torch.arange(draws.size(-1))
    ends = j % max(len(j) - 1, 1) == 0
    yield "the first or the last block does not read all", ~seen & ends[:, None]
    yield "the first or the last block is not read by all", ~seen & ends
    yield "a block does not read itself and both neighbours", ~seen & ((i - j).abs() <= 1)
    drawn, right = (x & ~fixed for x in (seen, expected))
    more = drawn.sum(-1, keepdim=True) - right.sum(-1, keepdim=True)
    yield "a row draws fewer blocks than num_random of those that are left", more < 0
    yield "a row reads more blocks than it should", more > 0
    yield "a row draws other blocks than those with the largest numbers in draws[h, i]", more == 0


@Dataflow
def right(draws, num_random):
    fixed = yield "the blocks that are read anyway", read_anyway(draws.size(-1))
    left = yield "the draws of the blocks that are left", draws.masked_fill(fixed, -math.inf)
    best = left.topk(min(num_random, draws.size(-1)), dim=-1).indices
    picked = torch.zeros(draws.shape, dtype=torch.bool).scatter(-1, best, True)
    return fixed | (yield "the random blocks", picked)


EXERCISE = Exercise(
    name="repair_plan",
    answer="repaired_plan",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("h i j",),
    explain=(kinds(rules),),
)
