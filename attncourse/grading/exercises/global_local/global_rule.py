"""Exercise global_rule: a window, global tokens, padding and a causal mask, joined to one mask."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.explain.kinds import kinds


def definition(is_global, lengths, left, right, causal):
    """The rule of the specification, of which padding and the future are taken away."""
    n = is_global.size(1)
    if lengths.max() > n:
        raise ValueError("no sample is longer than the positions")
    mask = spec.longformer_mask(is_global, left, right)
    for sample, length in zip(mask, lengths.tolist(), strict=True):
        sample[:, length:], sample[:, :, length:] = False, False
    return mask & spec.causal(n, n) if causal else mask


CALLS = (  # special about the call, share of global tokens, lengths, n, left, right, causal
    ("3 samples of 9 positions, 1 left and 2 right", 0.25, (9, 6, 8), 9, 1, 2, False),
    ("3 samples of 9 positions, causal, 2 left and 1 right", 0.25, (9, 6, 8), 9, 2, 1, True),
    ("as many samples as positions, 2 left and 0 right", 0.3, (5, 2, 4, 3, 5), 5, 2, 0, False),
    ("1 sample, only padding", 0.5, (0,), 4, 1, 1, False),
    ("no global token, 0 left and 3 right", 0.0, (8, 5), 8, 0, 3, False),
    ("every token global, causal", 1.0, (6, 4), 7, 0, 0, True),
    ("a window wider than the sequence, causal", 0.2, (5, 6, 3, 1), 6, 40, 40, True),
)


def cases(seed: int) -> list[Case]:
    """Position 1 is global in sample 0 alone; the last one is in all, and can be padding."""
    g, found = seeded(seed), []
    ranges = (18, 22), (12, 16), (5, 7), (8, 10)
    n, length, *sides = (int(torch.randint(*x, (), generator=g)) for x in ranges)
    drawn = "sizes drawn at random", 0.2, (n, length), n, *sides, False
    for what, share, lengths, n, *rest in (*CALLS, drawn):
        is_global = torch.rand(len(lengths), n, generator=g) < share
        if 0 < share < 1:
            is_global[:, -1], is_global[0, 1], is_global[1:2, 1] = True, True, False
        found.append(Case(what, (is_global, torch.tensor(lengths), *rest), gradients=False))
    return found


def rules(expected, seen, is_global, lengths, left, right, causal):
    """Pairs that are read and should not be, and those that should be."""
    i, j = torch.arange(is_global.size(1))[:, None], torch.arange(is_global.size(1))
    query, key = is_global[:, None, :, None], is_global[:, None, None]
    length = lengths[:, None, None, None]
    yield "padding reads", seen & (i >= length)
    yield "padding is read", seen & (j >= length)
    yield "the future is read, though causal", seen & causal & (j > i)
    yield "keys are read that are further back than left", seen & (j < i)
    yield "keys are read that are further ahead than right", seen & (j > i)
    yield "a query does not read its own key", i == j
    yield "near keys before the query are not read", (i - left <= j) & (j < i)
    yield "near keys behind the query are not read", (i < j) & (j <= i + right)
    yield "global tokens far apart do not read each other", query & key
    yield "a global query does not read far keys", query & ~key
    yield "a global key is not read from far away", key & ~query


@Dataflow
def right(is_global, lengths, left, right, causal):
    n = is_global.size(1)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    near = yield "the near pairs", (i - left <= j) & (j <= i + right)
    touched = yield "the global pairs", is_global[:, :, None] | is_global[:, None]
    there = yield "the real tokens", torch.arange(n) < lengths[:, None]
    mask = (near | touched) & there[:, :, None] & there[:, None]
    past = yield "the pairs without the future", j <= i
    return (mask & past if causal else mask)[:, None]


EXERCISE = Exercise(
    name="global_rule",
    answer="visible_pairs",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n m",),
    explain=(kinds(rules),),
)
