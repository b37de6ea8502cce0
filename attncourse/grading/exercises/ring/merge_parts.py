"""Exercise merge_parts: results over any number of parts of the keys become that over all keys."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded

NONE = -math.inf


def definition(outputs, lses):
    """Row by row: the parts that have seen a key, weighted by exp(lse - the largest of them)."""
    merged, lse = torch.zeros_like(outputs[0]), torch.full_like(lses[0], NONE)
    for row in torch.cartesian_prod(*map(torch.arange, lse.shape)).tolist():
        seen = [part for part in range(len(lses)) if lses[part, *row] > NONE]
        if seen:
            top = max(lses[part, *row] for part in seen)
            each = {part: torch.exp(lses[part, *row] - top) for part in seen}
            total = sum(each.values())
            merged[*row] = sum(w * outputs[part, *row] for part, w in each.items()) / total
            lse[*row] = top + torch.log(total)
    return merged, lse


CALLS = (  # special about the call; parts, b h n e; factor on lse, added; share of empty rows
    ("3 parts, 2 samples, 4 heads, 5 queries, values 6 wide", (3, 2, 4, 5, 6), 2, 0, 0),
    ("as many parts as samples and heads", (3, 3, 3, 4, 5), 2, 0, 0),
    ("1 part, some rows empty", (1, 2, 3, 4, 5), 2, 0, 0.4),
    ("8 parts, many rows empty", (8, 2, 3, 5, 4), 2, 0, 0.4),
    ("lse about 1000", (4, 2, 3, 5, 2), 2, 1000, 0),
    ("lse about -1000, some rows empty", (4, 2, 3, 5, 3), 2, -1000, 0.3),
    ("outputs near 100,000", (3, 1, 2, 4, 3), 2, 0, 0),  # float16 has no such numbers
    ("lse far apart from row to row", (3, 2, 3, 5, 4), 300, 0, 0),
)


def cases(seed: int) -> list[Case]:
    """An empty row of a part has lse minus infinity, and its output was never written: infinity."""
    g, found = seeded(seed), []
    for what, (p, b, h, n, e), loud, add, empty in CALLS:
        shapes = (p, b, h, n, e), (b, h, n), (p, b, h, n)
        outputs, shared, own = normal(g, *shapes)
        lses = (loud if loud > 2 else 0) * shared + 2 * own + add
        hidden = torch.rand(lses.shape, generator=g) < empty
        if empty:  # one row is empty in all parts, one in none
            hidden[..., 0], hidden[..., 1] = True, False
        outputs *= 1e5 if "100,000" in what else 1
        lses = lses.masked_fill(hidden, NONE)
        outputs = outputs.masked_fill(hidden[..., None], math.inf)
        ordinary = loud == 2 and not add and "100" not in what
        found.append(Case(what, (outputs, lses), gradients=None if empty else ordinary))
    return found


@Dataflow
def right(outputs, lses):
    kept = outputs.masked_fill((lses == NONE)[..., None], 0)
    kept = yield "the outputs of the parts, 0 where one is empty", kept
    top = yield "the largest lse of the rows", lses.amax(0)
    shift = yield "the lse that are subtracted", top.masked_fill(top == NONE, 0)
    each = yield "the exponentials exp(lse - largest)", torch.exp(lses - shift)
    total = yield "the sums of the exponentials", each.sum(0)
    shares = yield "the shares of the parts", each / total.masked_fill(total == 0, 1)
    return (shares[..., None] * kept).sum(0), shift + total.log()


EXERCISE = Exercise(
    name="merge_parts",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n"),
    results=("the output", "the lse"),
)
