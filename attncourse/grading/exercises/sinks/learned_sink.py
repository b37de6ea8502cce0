"""Exercise learned_sink: attention in which every head has a score for reading nothing."""

import math
from dataclasses import replace

import torch

from attncourse import spec
from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, seeded, sized_cases
from attncourse.grading.inputs import far_below_zero


def definition(query, key, value, sink, visible):
    """Behind the keys stands one with the score of the sink and value 0."""
    return spec.sink_attention(query, key, value, sink, visible)


CALLS = (  # special about the call, b h n m d e, how loud, factor on sinks, added, share hidden
    ("2 samples, 3 heads, 4 queries, 5 keys, values 7 wide", (2, 3, 4, 5, 6, 7), 1, 1, 0, 0),
    ("hidden keys, and a query that may read none", (3, 2, 5, 6, 4, 3), 1, 1, 0, 0.4),
    ("large scores and sinks", (1, 3, 4, 6, 5, 2), 200, 200, 400, 0),
    ("sinks far below all scores", (1, 4, 2, 3, 5, 6), 1, 3, -3e6, 0.3),
    ("scores below -1e8, and sinks below them", (1, 2, 4, 3, 16, 5), far_below_zero, 1, -3e8, 0.3),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed, "visible"), []
    for case in sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e, h", CALLS):
        query, key, value, sink, factor, added, hidden = case.args
        visible = torch.rand(query.size(2), key.size(2), generator=g) >= hidden
        if hidden:
            visible[0], visible[1] = False, True
        args = query, key, value, factor * sink + added, visible
        found.append(replace(case, args=args))
    return found


@Dataflow
def right(query, key, value, sink, visible):
    """Behind the visible keys stands the sink of each head, once a query."""
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    sinks = sink[:, None, None].expand(*scores.shape[:-1], 1)
    with_sinks = torch.cat([scores.masked_fill(~visible, -math.inf), sinks], -1)
    weights = yield "the weights of the keys", with_sinks.softmax(-1)[..., :-1]
    return weights @ value, weights


def read_as(asked: Asked) -> str:
    """The score as which a sink counts in the first call, if keys share rightly what it leaves."""
    call, sink = asked.shaped[0], asked.shaped[0].case.args[3].double()[:, None]
    right, seen = (x[1].double() for x in (call.expected, call.seen))
    asks, left = right.sum(-1), seen.sum(-1)
    if (left > 1.001).any():
        return f"In the call '{call.label}' the weights of a query sum to {float(left.max()):.3g}."
    score = sink + ((1 / left - 1) / (1 / asks - 1)).log()
    one = bool(((score - score[:1, :, :1]).abs() < 1e-3).all())  # NaN where nothing is left to it
    fits = one and not same(right, seen) and same(right * (left / asks)[..., None], seen)
    if call is not asked.calls[0] or not fits:
        return ""
    h = int((score[0] - sink).abs().argmax() // score.size(-1))
    is_, should = float(score[0, h, 0]), float(sink[h])
    return f"The sink of head {h} counts as a score of {is_:.2f}; it should count as {should:.2f}."


EXERCISE = Exercise(
    name="learned_sink",
    answer="sink_attention",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    explain=(read_as,),
)
