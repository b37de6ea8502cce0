"""Exercise learned_sink: attention in which every head has a score for reading nothing."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Exercise
from attncourse.grading.inputs import far_below_zero, normal, seeded
from attncourse.grading.recipe import Given, Recipe, hide


def definition(query, key, value, sink, visible):
    """The loops of the course: behind the keys one with the score of the sink and value 0."""
    return spec.sink_attention(query, key, value, sink, visible)


CALLS = (  # special about the call, b h n m d e, how loud, factor on sinks, added, share hidden
    ("2 samples, 3 heads, 4 queries, 5 keys, values 7 wide", (2, 3, 4, 5, 6, 7), 1, 1, 0, 0),
    ("hidden keys, and a query that may read none", (3, 2, 5, 6, 4, 3), 1, 1, 0, 0.4),
    ("large scores and sinks", (1, 3, 4, 6, 5, 2), 200, 200, 400, 0),
    ("sinks of about 1000", (2, 4, 3, 5, 6, 4), 1, 3, 1000, 0),
    ("sinks far below all scores", (1, 4, 2, 3, 5, 6), 1, 3, -3e6, 0.3),
    ("scores below -1e8, and sinks below them", (1, 2, 4, 3, 16, 5), far_below_zero, 1, -3e8, 0.3),
    ("1 query, 1 key, 1 head", (2, 1, 1, 1, 4, 3), 1, 1, 1, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), loud, factor, added, hidden in CALLS:
        query, key, value, sink = normal(g, (b, h, n, d), (b, h, m, d), (b, h, m, e), (h,))
        visible = torch.rand(n, m, generator=g) >= hidden
        if hidden:
            visible[0], visible[1] = False, True
        query = query if callable(loud) else loud * query
        if callable(loud):
            loud(query, key)
        args = query, key, value, factor * sink + added, visible
        found.append(Case(what, args, gradients=loud == 1))
    return found


def given(query, key, value, sink, visible):
    return Given(query, key, value, visible, rest=sink)


def with_sink(scores, x):
    """The scores of the visible keys, and behind them the sink of each head, once a query."""
    return torch.cat([hide(scores, x), column(scores, x.rest)], -1)


def column(scores, sink):
    return sink[:, None, None].expand(*scores.shape[:-1], 1)


RIGHT = Recipe(given, mask=with_sink, finish=lambda weights, x: weights[..., :-1])
PLAIN = {"mask": hide, "finish": lambda weights, x: weights}  # no column is appended


def nothing_left(asked: Asked) -> str:
    """The weights of all queries add up to 1 or to 0, though the sink should take a share."""
    sums = [call.seen[1].double().nan_to_num(0.0).sum(-1) for call in asked.shaped]
    asks = asked.shaped[0].expected[1].sum(-1)
    if not ((asks > 0.01) & (asks < 0.99) & (sums[0] > 0.99)).any():
        return ""
    if not all(((x - x.round()).abs() < 1e-3).all() for x in sums):
        return ""
    return "The weights of a query add up to 1, so that nothing is left to the sink."


def sinks(change):
    """The same, with other sinks."""
    return {"given": lambda q, k, v, sink, seen: given(q, k, v, change(sink, q), seen)}


EXERCISE = Exercise(
    name="learned_sink",
    answer="sink_attention",
    judge=Calls(definition, cases),
    right=RIGHT,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    explain=(nothing_left,),
    measures=("gradients",),
    ideas=[
        RIGHT.but("The sink is added to all scores of its head; a softmax does not notice that.",
                  mask=lambda s, x: hide(s, x) + x.rest[:, None, None], finish=PLAIN["finish"]),
        RIGHT.but("The weights are multiplied by the sigmoid of the sink; what the sink takes "
                  "depends on the scores, too.", mask=hide,
                  finish=lambda w, x: w.nan_to_num(0.0) * x.rest.sigmoid()[:, None, None]),
        RIGHT.but("The sink is scaled as if it were a dot product; it is a score already.",
                  **sinks(lambda sink, q: sink * q.size(-1) ** -0.5)),
        RIGHT.but("The sink is used as exp(sink); it is a score, of which the softmax takes exp.",
                  **sinks(lambda sink, q: sink.exp())),
        RIGHT.but("The weights are made to sum to 1 again, so that the sink takes nothing.",
                  finish=lambda w, x: w[..., :-1] / w[..., :-1].sum(-1, keepdim=True)),
    ],
)  # fmt: skip
