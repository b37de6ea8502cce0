"""Exercise online_step: some more keys arrive, and what is known of each row is updated."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, normal, seeded


def definition(maximum, total, mixed, scores, value, visible):
    """Row by row and key by key, from the sums that the three numbers stand for."""
    found = maximum.clone(), total.clone(), mixed.clone()
    for at in torch.cartesian_prod(*map(torch.arange, total.shape)).tolist():
        keys = [j for j in range(value.size(2)) if visible[at[2], j]]
        highest = max([maximum[*at], *(scores[*at, j] for j in keys)])
        if highest > -math.inf:
            past = math.exp(maximum[*at] - highest)
            each = [math.exp(scores[*at, j] - highest) for j in keys]
            mix = sum(w * value[*at[:2], j] for w, j in zip(each, keys, strict=True))
            found[0][*at], found[1][*at] = highest, past * total[*at] + sum(each)
            found[2][*at] = past * mixed[*at] + mix
    return found


CALLS = (  # special about the call, b h n m e, how loud, shares of new rows and of hidden keys
    ("2 samples, 3 heads, 4 queries, 5 keys, values 6 wide", (2, 3, 4, 5, 6), 1, 0, 0),
    ("the first keys of all rows", (2, 2, 3, 4, 5), 1, 1, 0),
    ("hidden keys; some rows have seen or see none", (2, 3, 6, 4, 5), 1, 0.5, 0.5),
    ("large scores", (1, 2, 5, 7, 3), 200, 0.3, 0.2),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Query 0 sees nothing where keys are hidden, and one of its rows has no past either."""
    g, found = seeded(seed), []
    for what, (b, h, n, m, e), loud, fresh, hidden in CALLS:
        shapes = (b, h, n), (b, h, n, e), (b, h, n, m), (b, h, m, e)
        maximum, mixed, scores, value = normal(g, *shapes)
        total = 1 + 3 * torch.rand(b, h, n, generator=g)
        visible = torch.rand(n, m, generator=g) >= hidden
        new = torch.rand(b, h, n, generator=g) < fresh
        if hidden:
            visible[0], visible[1], new[0, 0, :2] = False, True, True
        maximum = (loud * maximum).masked_fill(new, -math.inf)
        total, mixed = total.masked_fill(new, 0.0), mixed.masked_fill(new[..., None], 0.0)
        found.append(Case(what, (maximum, total, mixed, loud * scores, value, visible)))
    return found


@Dataflow
def right(old, total, mixed, scores, v, visible):
    seen = scores.masked_fill(~visible, -math.inf)
    seen = yield "the scores, minus infinity where a key is hidden", seen
    top = yield "the largest new scores", seen.amax(-1)
    new = yield "the new maxima", torch.maximum(old, top)
    shift = yield "the maxima that are subtracted", new.masked_fill(new == -math.inf, 0)
    weights = yield "the new exponentials", torch.exp(seen - shift[..., None])
    past = yield "the factors exp(old maximum - new maximum)", torch.exp(old - shift)
    fresh = yield "the weighted sums of the new values", weights @ v
    return new, past * total + weights.sum(-1), past[..., None] * mixed + fresh


EXERCISE = Exercise(
    name="online_step",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n", "b h n", "b h n e"),
    results=("the maximum", "the sum", "the mixed values"),
    ideas=[
        Mistake("The mask is read the other way round; True = may attend.",
                lambda m, t, o, s, v, visible: right(m, t, o, s, v, ~visible)),
    ],
)  # fmt: skip
