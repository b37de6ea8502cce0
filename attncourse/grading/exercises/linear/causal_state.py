"""Exercise causal_state: one token writes and reads, and the past stays as large as it was."""

from dataclasses import replace

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.exercises.linear.continue_state import definition as read_piece
from attncourse.grading.feature_inputs import EXTREMES, cut, drawn, elu_plus_one, extremes, uneven


def definition(query, key, value, state, total):
    """A piece of one token, read by the loop of the course behind the state of before."""
    token = (x[:, :, None] for x in (query, key, value))
    output, new = read_piece(*token, torch.cat([state, total[..., None]], dim=-1))
    return output[:, :, 0], new[..., :-1], new[..., -1]


CALLS = (  # special about the call, b h n d e, what changes the numbers, how many came before
    ("2 samples, 3 heads, 7 tokens before, values 5 wide", (2, 3, 8, 4, 5), None, 7),
    ("the first token: state and total are 0", (3, 2, 1, 5, 4), None, 0),
    ("5 tokens before, features near 0 and far from it", (2, 4, 6, 3, 2), uneven, 5),
    ("the first token, its features near 0, 1 value", (2, 3, 1, 2, 1), uneven, 0),
    (f"1 token before, {EXTREMES}", (2, 2, 2, 2, 4), extremes, 1),
    ("keys as wide as values, 20 tokens before", (3, 1, 21, 4, 4), None, 20),
)


def cases(seed: int) -> list[Case]:
    found = []
    for case in map(cut, drawn(seed, CALLS)):
        *token, state = case.args
        args = *(x[:, :, 0] for x in token), state[..., :-1], state[..., -1]
        found.append(replace(case, args=args))
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
)
