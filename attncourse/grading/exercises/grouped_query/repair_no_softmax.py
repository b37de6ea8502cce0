"""Exercise repair_no_softmax: the heads of a group are added up, and the softmax is forgotten."""

from itertools import combinations

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.grouped_query._noticed import GroupedCalls
from attncourse.grading.exercises.grouped_query._sharing import (
    apart,
    averaged,
    cases,
    given,
    groups,
    sharing,
    unasked,
)
from attncourse.grading.mistakes import (
    dots,
    gradients,
    heads,
    in_place,
    mistakes_of,
    mixes,
    outputs,
    scales,
    softmaxes,
    weights,
)
from attncourse.grading.recipe import Recipe
from attncourse.grading.slips import alone

RIGHT = Recipe(given, width="d")
ACCEPTED = Accepted(repeated_keys=RIGHT)


@ACCEPTED.add
def found_code_repaired(query, key, value):
    grouped = query.unflatten(1, (key.size(1), -1))
    weights = (grouped @ key[:, :, None].mT / query.size(-1) ** 0.5).softmax(-1)
    return (weights @ value[:, :, None]).flatten(1, 2), weights.flatten(1, 2)


@ACCEPTED.add
def einsum_in_double(query, key, value):
    q = query.double().unflatten(1, (key.size(1), -1))
    scores = torch.einsum("bgrnd,bgmd->bgrnm", q, key.double()) * key.shape[-1] ** -0.5
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    output = torch.einsum("bgrnm,bgme->bgrne", weights, value.double())
    return output.flatten(1, 2), weights.flatten(1, 2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    r, heads, maps = query.size(1) // key.size(1), [], []
    for h in range(query.size(1)):
        scores = query[:, h] @ key[:, h // r].mT / query.size(-1) ** 0.5
        maps.append(scores.softmax(-1))
        heads.append(maps[-1] @ value[:, h // r])
    return [torch.stack(heads, dim=1), torch.stack(maps, dim=1)]


@ACCEPTED.add
def heads_folded_into_queries(query, key, value):
    b, h, n, d = query.shape
    scores = (query * d**-0.5).reshape(b, key.size(1), -1, d) @ key.mT
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return (weights @ value).reshape(b, h, n, -1), weights.reshape(b, h, n, -1)


@ACCEPTED.add
def picked_by_an_index(query, key, value):
    g = torch.arange(query.size(1)) // (query.size(1) // key.size(1))
    weights = torch.softmax(query @ key[:, g].mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value[:, g], weights


def left(change):
    """One row of scores is left for each group."""
    return {
        "mask": lambda s, x: change(groups(s, x, x.rest)),
        "mix": lambda w, x: w @ groups(x.value, x, x.rest)[:, :, 0],
    }


FAULTS = (  # of the code as found
    ("the scores are summed over the heads of a group, so the query heads are gone", left(lambda s: s.sum(2))),
    ("no softmax follows the scores", {"normalize": lambda s: s}),
    ("the scores are not divided by sqrt(d)", {"scale": lambda x: 1.0}),
    ("head h is in group h % G instead of h // (H / G)",
     next(steps for name, _, steps in sharing(RIGHT) if name == "strided")),
)  # fmt: skip

MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The scores of a group are summed, so one output is left for each group; every query head has scores "
     "and an output of its own.", FAULTS[0][1]),
    ("The scores of a group are averaged, so one output is left for each group; every query head has scores "
     "and an output of its own.", left(lambda s: s.mean(2))),
    ("The scores of a group are summed before the softmax, and the result is copied to its heads; each head "
     "has scores of its own.", {"mask": lambda s, x: averaged(s, x.rest) * (s.size(1) // x.rest)}),
    ("The weights of a group are averaged and the result is copied to its heads; each head has weights of "
     "its own.", {"finish": lambda w, x: averaged(w, x.rest)}),
    ("The weights of a group are summed and the result is copied to its heads; each head has weights of its "
     "own.", {"finish": lambda w, x: averaged(w, x.rest) * (w.size(1) // x.rest)}),
))  # fmt: skip
MISTAKES.append(
    RIGHT.but("The groups are still apart, and head h is in group h % G instead of h // (H / G); return the output as "
              "(b, H, n, e) and the weights as (b, H, n, m).",
              answer=lambda o, w, s, x: [apart(made, o.size(1) // x.rest) for made in (o, w)], **FAULTS[3][1])
)  # fmt: skip
MISTAKES += mistakes_of(RIGHT, scales, softmaxes, sharing)
MISTAKES += alone(
    mistakes_of(RIGHT, dots, mixes, outputs, gradients, heads, weights, unasked, in_place)
)
MISTAKES += [RIGHT.but(says, answer=change) for says, change in (
    ("The groups are still apart, in the output and in the weights; return (b, H, n, e) and (b, H, n, m).",
     lambda o, w, s, x: [groups(made, x, x.rest) for made in (o, w)]),
    ("The output is right, but the groups of the weights are still apart; return them as (b, H, n, m).",
     lambda o, w, s, x: (o, groups(w, x, x.rest))),
    ("The weights of a group are averaged; heads that share keys still have weights of their own.",
     lambda o, w, s, x: (o, groups(w, x, x.rest).mean(2))),
    ("The weights of the first head of each group stand for its group; all H heads have weights of their own.",
     lambda o, w, s, x: (o, groups(w, x, x.rest)[:, :, 0])),
    ("Only the weights are returned; return (output, weights).", lambda o, w, s, x: w),
)]  # fmt: skip
MISTAKES += [
    RIGHT.but(f"Three faults are left: {'; '.join(says for says, _ in three)}.",
              **{step: change for _, steps in three for step, change in steps.items()})
    for three in combinations(FAULTS, 3)
]  # fmt: skip
MISTAKES.append(
    RIGHT.but("This is the code as found, or computes the same: all four faults are still there.",
              **{step: change for _, steps in FAULTS for step, change in steps.items()})
)  # fmt: skip

EXERCISE = Exercise(
    name="repair_no_softmax",
    answer="grouped_attention",
    judge=GroupedCalls(spec.grouped_query_attention, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
