"""Exercise differential_step: what both heads of a pair read is taken out of what the first one reads."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.multi_token._pairs import (
    Maps,
    Subtracted,
)
from attncourse.grading.exercises.multi_token._subtractions import STEPS
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import ATTENTION, in_place, masks, mistakes_of, weights
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given


def definition(query, key, value, lam, visible):
    """The loops of the course: two maps a pair, one number at a time."""
    return spec.differential_attention(query, key, value, lam, visible)


CALLS = (  # what is special, b pairs n m d e, lam, how loud, the share that is hidden
    ("2 samples, 3 pairs, 4 queries, 5 keys, values 7 wide", (2, 3, 4, 5, 6, 7), 0.8, 1, 0),
    ("lam = 0", (1, 2, 4, 3, 5, 6), 0.0, 1, 0),
    ("hidden keys, lam = -0.6", (3, 2, 5, 6, 4, 3), -0.6, 1, 0.4),
    ("large scores", (1, 3, 4, 6, 5, 2), 0.5, 2000, 0.2),
    ("4 pairs, lam = 1.3", (1, 4, 2, 5, 3, 4), 1.3, 1, 0),
    ("1 pair, 1 query, 2 keys", (2, 1, 1, 2, 4, 3), 0.6, 1, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), lam, loud, share in CALLS:
        query, key, value = normal(g, (b, 2 * h, n, d), (b, 2 * h, m, d), (b, h, m, e))
        visible = torch.rand(n, m, generator=g) >= share
        visible[:, int(torch.randint(m, (), generator=g))] = True
        if loud > 1:  # query 0 may read one key only, whose score is far below all others
            visible[0] = torch.arange(m) == 1
            query[:, :, 0] = -1e5 * key[:, :, 1]
        args = loud * query, key, value, torch.tensor(lam), visible
        found.append(Case(what, args, gradients=loud == 1))
    return found


def given(query, key, value, lam, visible):
    return Given(query, key, value, visible, rest=lam)


RIGHT = Subtracted(given)
ACCEPTED = Accepted(every_second_head=RIGHT)


@ACCEPTED.add
def an_axis_for_the_two(query, key, value, lam, visible):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.size(-1))
    maps = scores.masked_fill(visible.logical_not(), float("-inf")).softmax(-1)
    maps = maps.unflatten(1, (-1, 2))
    w = maps[:, :, 0] - maps[:, :, 1] * lam
    return torch.einsum("bpij,bpje->bpie", w, value), w


@ACCEPTED.add
def two_outputs_subtracted(query, key, value, lam, visible):
    """The mix is linear, so outputs can be subtracted as well as maps."""
    outputs, tables = [], []
    for k in (0, 1):
        q, other = query[:, k::2], key[:, k::2]
        outputs.append(F.scaled_dot_product_attention(q, other, value, visible))
        scores = (q @ other.mT * q.size(-1) ** -0.5).masked_fill(~visible, -1e30)
        tables.append(F.softmax(scores, dim=-1))
    return outputs[0] - lam * outputs[1], tables[0] - lam * tables[1]


@ACCEPTED.add
def pair_by_pair(query, key, value, lam, visible):
    bias = torch.zeros(visible.shape).masked_fill(~visible, -math.inf)
    tables = []
    for p in range(value.shape[1]):
        a, b = (
            torch.softmax(
                query[:, i] @ key[:, i].transpose(1, 2) / query.shape[-1] ** 0.5 + bias, 2
            )
            for i in (2 * p, 2 * p + 1)
        )
        tables.append(torch.sub(a, lam * b))
    w = torch.stack(tables, 1)
    return [w @ value, w]


@ACCEPTED.add
def a_matrix_that_subtracts(query, key, value, lam, visible):
    """One row for each pair: 1 for its first head, -lam for its second."""
    pairs = value.size(1)
    scores = query @ key.mT * query.size(-1) ** -0.5
    maps = torch.where(visible, scores, -torch.inf).softmax(-1)
    signs = torch.stack([torch.ones_like(lam), -lam])
    table = torch.einsum("bpsij,s->bpij", maps.reshape(len(maps), pairs, 2, *maps.shape[2:]), signs)
    return table @ value, table


def of_heads(order):
    """The values of another pair for each of the 2 h heads, whose outputs are then subtracted."""

    def answer(query, key, value, lam, visible):
        x = given(query, key, value, lam, visible)
        maps = RIGHT.normalize(RIGHT.mask(RIGHT.score(x) * RIGHT.scale(x), x))
        outputs = maps @ order(value)
        return outputs[:, ::2] - lam * outputs[:, 1::2], RIGHT.subtract(*RIGHT.pair(maps), lam)

    return answer


MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in STEPS])
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("The values are repeated in the order 0, 1, 2, 0, 1, 2; both heads of a pair read the values of their pair: 0, 0, 1, 1, 2, 2.",
     of_heads(lambda value: value.repeat(1, 2, 1, 1))),
    ("The second heads read the values of the next pair; both heads of a pair read the same values.",
     of_heads(lambda value: torch.stack([value, value.roll(-1, 1)], 2).flatten(1, 2))),
)]  # fmt: skip
MISTAKES += mistakes_of(
    RIGHT, *ATTENTION, masks, weights, in_place, without=("keys mixed", "queries mixed")
)

EXERCISE = Exercise(
    name="differential_step", judge=Maps(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
