"""Exercise continue_state: a text read in pieces; the earlier ones must not be lost; repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.feature_inputs import (
    EXTREMES, cut, drawn, elu_plus_one, extremes, late, uneven, with_one,
)  # fmt: skip


def definition(query, key, value, state):
    """The loop of the course, token by token, and what the state of before adds."""
    q, k, v = spec.elu_plus_one(query), spec.elu_plus_one(key), with_one(value)
    read, new = spec.state_space(q, k, v, torch.zeros_like(q[..., 0]), scale=1.0)
    if state is not None:
        read, new = read + q @ state, new + state
    return read[..., :-1] / read[..., -1:], new


CALLS = (  # special about the call, b h n d e, what changes the numbers, tokens of the state
    ("a state of 6 tokens, 2 samples, 3 heads, 4 new tokens", (2, 3, 10, 5, 6), None, 6),
    ("the first piece: no state", (3, 2, 5, 4, 3), None, None),
    ("a state of 9 tokens, 1 new token", (2, 1, 10, 3, 4), None, 9),
    ("no state, features near 0 and far from it, 1 value", (2, 1, 4, 2, 1), uneven, None),
    (f"a state of 1 token, 5 new ones, {EXTREMES}", (2, 2, 6, 2, 4), extremes, 1),
    ("a state of 1 token, features near 0 and far from it", (1, 3, 8, 2, 5), uneven, 1),
    ("a state of 2 tokens, the last key and value a million", (1, 2, 7, 3, 4), late, 2),
)


def cases(seed: int) -> list[Case]:
    return list(map(cut, drawn(seed, CALLS)))


@Dataflow
def right(query, key, value, state):
    q = yield "the features of the queries", elu_plus_one(query)
    k = yield "the features of the keys", elu_plus_one(key)
    v = yield "the values with a 1 beside each", with_one(value)
    weights = yield "the weights inside the piece", (q @ k.mT).tril()
    own = yield "the sums inside the piece", weights @ v
    written = yield "the numbers that the piece writes", k.mT @ v
    read, new = own, written
    if state is not None:
        read = yield "the sums of state and piece", q @ state + own
        new = yield "the numbers of the new state", state + written
    return read[..., :-1] / read[..., -1:], new


EXERCISE = Exercise(
    name="continue_state",
    answer="read_piece",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h t e", "b h i j"),
    results=("the output", "the new state"),
)
