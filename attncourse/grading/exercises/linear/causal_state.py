"""Exercise causal_state: one token writes and reads, and the past stays as large as it was."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.explain.mixtures import mixture
from attncourse.grading.feature_inputs import EXTREMES, elu_plus_one, extremes, faint


def definition(query, key, value, state, total):
    """One token of the course's loop, with the sums that were there already."""
    q, k = (spec.elu_plus_one(x[:, :, None]) for x in (query, key))
    v = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)[:, :, None]
    read, new = spec.state_space(q, k, v, torch.zeros_like(q[..., 0]), scale=1.0)
    old = torch.cat([state, total[..., None]], dim=-1)
    read = (read + q @ old)[:, :, 0]
    return read[..., :-1] / read[..., -1:], state + new[..., :-1], total + new[..., -1]


CALLS = (  # special about the call, b h d e, how many tokens came before, how loud
    ("2 samples, 3 heads, 7 tokens before, values 5 wide", (2, 3, 4, 5), 7, 1),
    ("the first token: state and total are 0", (3, 2, 5, 4), 0, 1),
    ("1 sample, 1 head, 1 token before", (1, 1, 3, 6), 1, 1),
    ("features near 0 and far from it", (2, 4, 3, 2), 5, 12),
    ("the first token, its features near 0, 1 value", (2, 3, 2, 1), 0, 9),
    (f"1 token before, {EXTREMES}", (2, 2, 2, 4), 1, extremes),
    ("keys as wide as values, 20 tokens before", (3, 1, 4, 4), 20, 1),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, d, e), past, loud in CALLS:
        query, key, value = normal(g, (b, h, d), (b, h, d), (b, h, e))
        keys, values = normal(g, (b, h, past, d), (b, h, past, e))
        if callable(loud):
            for tokens in (key, value), (keys, values):
                loud(query, *tokens)
        keys = elu_plus_one(keys)
        if not callable(loud) and loud > 1:  # the product with the total is below 1, or nearly 0
            query, key = faint(query), faint(key)
            if past:
                key[..., 0], key[..., -1] = loud, -6.0
        args = query, key, value, keys.mT @ values, keys.sum(2)
        found.append(Case(what, args, gradients=loud == 1))
    return found


@Dataflow
def right(query, key, value, state, total):
    q = yield "the features of the queries", elu_plus_one(query)
    k = yield "the features of the keys", elu_plus_one(key)
    written = yield "the products of key and value", k[..., None] * value[..., None, :]
    new = yield "the numbers of the new state", state + written
    counted = yield "the numbers of the new total", total + k
    sums = yield "the sums that the query reads", (q[..., None, :] @ new)[..., 0, :]
    weight = yield "the weights that divide them", (q * counted).sum(-1)
    return sums / weight[..., None], new, counted


EXERCISE = Exercise(
    name="causal_state",
    answer="state_step",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h e", "b h i j", "b h d"),
    results=("the output", "the new state", "the new total"),
    measures=("gradients",),
    explain=(mixture("state", "the products of key and value"),),
)
