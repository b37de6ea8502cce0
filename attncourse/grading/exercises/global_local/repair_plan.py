"""Exercise repair_plan: a block-sparse plan whose random blocks are few and the same for all heads, and whose ends look at nothing."""

import math
from itertools import combinations

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.global_local._steps import Plan, largest
from attncourse.grading.exercises.global_local._tables import Tables, tables
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.slips import alone


def definition(draws, num_random):
    """Block by block: the ends and the neighbours, then the largest draws among the blocks that are left."""
    heads, blocks, _ = draws.shape
    plan = torch.zeros(heads, blocks, blocks, dtype=torch.bool)
    for h in range(heads):
        for i in range(blocks):
            read = [j for j in range(blocks) if {i, j} & {0, blocks - 1} or abs(i - j) <= 1]
            left = sorted(set(range(blocks)) - set(read), key=lambda j: -draws[h, i, j])
            plan[h, i, read + left[:num_random]] = True
    return plan


CALLS = (  # what is special; heads, blocks, random blocks
    ("3 heads, 9 blocks, 2 random", (3, 9, 2)),
    ("2 heads, 6 blocks, 1 random", (2, 6, 1)),
    ("4 heads, 11 blocks, 3 random", (4, 11, 3)),
    ("as many heads as blocks", (7, 7, 2)),
    ("2 heads, 8 blocks, 2 random, draws far below zero", (2, 8, 2)),
    ("1 head, 8 blocks, none random", (1, 8, 0)),
    ("3 heads, 5 blocks, more random ones than are left", (3, 5, 6)),
    ("2 heads, 2 blocks", (2, 2, 1)),
)


def cases(seed: int) -> list[Case]:
    """Draws are below zero as often as above; in two cases all are below, once below what people hide with."""
    g, found = seeded(seed), []
    drawn = tuple(int(torch.randint(*x, (), generator=g)) for x in ((2, 6), (13, 16), (5, 8)))
    for what, (heads, blocks, num_random) in (*CALLS, ("sizes drawn at random", drawn)):
        draws = torch.randn(heads, blocks, blocks, generator=g) - (4 if blocks == 11 else 0)
        draws = draws * 2.0**25 - 2.0**28 if "far below" in what else draws
        found.append(Case(what, (draws, num_random), gradients=False))
    return found


def kinds(expected, seen, draws, num_random):
    """Blocks that are missing, by the rule that asks for them, and blocks that no rule asks for."""
    i, j = torch.arange(draws.size(-1))[:, None], torch.arange(draws.size(-1))
    ends = j % max(len(j) - 1, 1) == 0
    yield "the first or the last block does not read all", ~seen & ends[:, None]
    yield "the first or the last block is not read by all", ~seen & ends
    yield "a block does not read itself and both neighbours", ~seen & ((i - j).abs() <= 1)
    drawn, right = (x & ~Plan()(draws, 0) for x in (seen, expected))
    more = drawn.sum(-1, keepdim=True) - right.sum(-1, keepdim=True)
    yield "a row draws fewer blocks than num_random of those that are left", more < 0
    yield "a row reads more blocks than it should", more > 0
    yield (
        "a row draws as many blocks as it should, but not those with the largest numbers in draws[h, i]",
        more == 0,
    )


RIGHT = Plan()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def found_code_repaired(draws, num_random):
    heads, blocks, _ = draws.shape
    at = torch.arange(blocks)
    plan = (at[:, None] - at).abs() <= 1
    plan[:, [0, -1]] = True
    plan[[0, -1]] = True
    plan = plan.repeat(heads, 1, 1)
    best = draws.masked_fill(plan, -math.inf).topk(min(num_random, blocks)).indices
    plan[torch.arange(heads)[:, None, None], at[:, None], best] = True
    return plan


@ACCEPTED.add
def row_by_row(draws, num_random):
    plan = torch.zeros_like(draws)
    blocks = draws.shape[1]
    for head, numbers in zip(plan, draws.tolist(), strict=True):
        for i, row in enumerate(numbers):
            read = {0, blocks - 1, *range(max(i - 1, 0), min(i + 2, blocks))}
            if i in (0, blocks - 1):
                read = set(range(blocks))
            free = [j for j in range(blocks) if j not in read]
            free.sort(key=row.__getitem__, reverse=True)
            head[i, list(read | set(free[:num_random]))] = 1
    return plan > 0


@ACCEPTED.add
def ranks_of_a_double_sort(draws, num_random):
    """The fixed blocks come first in each row's order; the next num_random follow."""
    blocks = draws.size(2)
    at = torch.arange(blocks)
    end = (at % max(blocks - 1, 1)) == 0
    fixed = end | end[:, None] | (at[:, None].sub(at).pow(2) < 2)
    order = torch.where(fixed, torch.inf, draws).argsort(dim=2, descending=True)
    return order.argsort(dim=2) < fixed.sum(1, keepdim=True) + num_random


NO_ROWS = {"queries": lambda i, last: i > last}
AMONG_ALL = {"left": lambda draws, fixed: draws}
ONE_DRAW = {"draw": lambda draws: draws[:1].expand_as(draws)}
FAULTS = (  # of the code as found
    ("the first and the last block are read by all, but do not read all", NO_ROWS),
    ("random blocks are drawn among those, too, that the row reads anyway", AMONG_ALL),
    ("all heads use the draws of head 0", ONE_DRAW),
)

MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The first and the last block are read by all, but they do not read all: their rows are True as well.", NO_ROWS),
    ("Random blocks are drawn among all blocks, so a draw is lost on each that the row reads anyway; draw among those "
     "that are left.", AMONG_ALL),
    ("All heads use the draws of head 0; each has its own.", ONE_DRAW),
    ("A head uses the draws of another one; each has its own.", {"draw": lambda draws: draws.roll(1, 0)}),
    *(("A row uses the draws of its neighbour; each has its own.", {"draw": lambda draws, step=step: draws.roll(step, 1)})
      for step in (1, -1)),
    ("The sign of the draws is dropped; the largest numbers are asked.", {"draw": torch.abs}),
    ("The draws are averaged or added up over the heads; each has its own.",
     {"draw": lambda draws: draws.mean(0, keepdim=True).expand_as(draws)}),
    ("All rows use the draws of row 0; each has its own.", {"draw": lambda draws: draws[:, :1].expand_as(draws)}),
    ("Rows and columns of the draws are exchanged: draws[h, i, j] belongs to queries i and keys j.",
     {"draw": lambda draws: draws.mT}),
    ("The smallest draws are taken; take the largest.", {"draw": torch.neg}),
    ("The first and the last block read all, but they are not read by all: their columns are True as well.",
     {"keys": lambda j, last: j > last}),
    ("Neither the first nor the last block is global.", {"keys": lambda j, last: j > last, **NO_ROWS}),
    ("Only the first block is global; the last one is, too.",
     {"keys": lambda j, last: j == 0, "queries": lambda i, last: i == 0}),
    ("The neighbours are missing: a block reads the one before it, itself and the one behind it.",
     {"near": lambda i, j: i == j}),
    ("A block does not read itself here; it reads itself and both neighbours.", {"near": lambda i, j: (i - j).abs() == 1}),
    ("The neighbour behind is missing.", {"near": lambda i, j: (i == j) | (i == j + 1)}),
    ("There is no window: neither the block itself nor its neighbours are read.", {"near": lambda i, j: i < 0 * j}),
    ("What is read anyway gets the draw 0, which is more than many draws; give it minus infinity.",
     {"left": lambda draws, fixed: draws * ~fixed}),
    ("Only the window is left out of the draw; the first and the last block are read anyway, too.",
     {"left": lambda draws, fixed: draws.masked_fill(Plan(keys=lambda j, last: j < 0, queries=lambda i, last: i < 0,
                                                          pick=lambda d, r: d > math.inf)(draws, 0), -math.inf)}),
    ("Only the first and the last block are left out of the draw; the window is read anyway, too.",
     {"left": lambda draws, fixed: draws.index_fill(-1, torch.tensor([0, draws.size(-1) - 1]), -math.inf)}),
    ("The random blocks are drawn among those that are read anyway; draw among the others.",
     {"left": lambda draws, fixed: draws.masked_fill(~fixed, -math.inf)}),
    ("No block is drawn at random.", {"pick": lambda draws, r: draws > math.inf}),
    ("One random block too few is drawn.", {"pick": lambda draws, r: largest(draws, max(r - 1, 0))}),
    ("One random block too many is drawn.", {"pick": lambda draws, r: largest(draws, r + 1)}),
    ("Every draw above zero counts; num_random blocks are drawn in each row.", {"pick": lambda draws, r: draws > 0}),
    ("The largest draws are sought down the columns; each row of queries draws for itself.",
     {"pick": lambda draws, r: largest(draws.mT, r).mT}),
    ("The largest draws are sought over the heads; each row of each head draws for itself.",
     {"pick": lambda draws, r: largest(draws.movedim(0, -1), r).movedim(-1, 0)}),
    ("The largest draws of a head are sought in all rows together; each row draws for itself.",
     {"pick": lambda draws, r: largest(draws.flatten(1), r * draws.size(1)).view_as(draws)}),
    ("topk raises where num_random is more than there are blocks; such a row reads all.",
     {"pick": lambda draws, r: (draws.topk(r), largest(draws, r))[1]}),
    ("Where i reads j, j is made to read i; the random blocks go one way.", {"finish": lambda plan: plan | plan.mT}),
    ("A causal mask is put in; blocks read both ways.", {"finish": torch.tril}),
    ("There is an axis for the batch; return (heads, blocks, blocks).", {"finish": lambda plan: plan[None]}),
))  # fmt: skip
MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in (
    *(("What is read anyway gets a number such as -100 or -1e6, which is more than some draws; give it minus infinity.",
       {"left": lambda draws, fixed, x=x: draws.masked_fill(fixed, x)}) for x in (-1.0, -3.0, *(-(10.0**k) for k in range(1, 9)))),
))  # fmt: skip


def whole_heads(plan):
    """What ``plan[[0, -1]] = True`` does once there is an axis for the heads."""
    plan = plan.clone()
    plan[[0, -1]] = True
    return plan


MISTAKES += [
    *tables(RIGHT, "head", "(heads, blocks, blocks)"),
    Mistake("plan[[0, -1]] marks the first and the last head where the heads are the first axis; mark rows: plan[:, [0, -1]].",
            Plan(finish=whole_heads, **NO_ROWS)),
    Mistake("draws is changed in place; its caller finds it changed.",
            Plan(left=lambda draws, fixed: draws.masked_fill_(fixed, -math.inf))),
    *(Mistake(f"Two faults are left: {'; '.join(says for says, _ in two)}.", Plan(**{k: f for _, x in two for k, f in x.items()}))
      for two in combinations(FAULTS, 2)),
    Mistake("This is the code as found, or does the same: all three faults are still there.",
            Plan(**{k: f for _, x in FAULTS for k, f in x.items()})),
]  # fmt: skip

EXERCISE = Exercise(
    name="repair_plan",
    answer="repaired_plan",
    judge=Tables(definition, cases, kinds=kinds),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
