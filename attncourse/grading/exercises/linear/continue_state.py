"""Exercise continue_state: a text read in pieces; the earlier ones must not be lost; repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake
from attncourse.grading.feature_inputs import (
    EXTREMES,
    UNIT,
    drawn,
    elu_plus_one,
    extremes,
    state_before,
    with_one,
)


def definition(query, key, value, state):
    """The loop of the course, token by token, and what the state of before adds."""
    q, k = spec.elu_plus_one(query), spec.elu_plus_one(key)
    v = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    read, new = spec.state_space(q, k, v, torch.zeros_like(q[..., 0]), scale=1.0)
    if state is not None:
        read, new = read + q @ state, new + state
    return read[..., :-1] / read[..., -1:], new


def far_before(b, h, d, e, tokens):
    """Draws a state whose numbers are small in head 0, and large in head 1."""
    drawn, small = state_before(b, h, d, e, tokens), torch.tensor([*[2e-7] * e, 1e-5])
    return lambda g: drawn(g) * torch.stack([small, torch.full((e + 1,), 1e5)])[:, None]


CALLS = (  # special about the call, b h n m d e, how loud, state
    ("a state of 6 tokens, 2 samples, 3 heads, 4 new tokens, values 6 wide",
     (2, 3, 4, 4, 5, 6), 1, state_before(2, 3, 5, 6, 6)),
    ("the first piece: no state", (3, 2, 5, 5, 4, 3), 1, None),
    (f"no state, {UNIT}", (1, 2, 4, 4, 3, 0), 1, None),
    ("a state of 9 tokens, 1 new token", (2, 1, 1, 1, 3, 4), 1, state_before(2, 1, 3, 4, 9)),
    ("no state, 4 tokens with features near 0 and far from it, values of 1 number",
     (2, 1, 4, 4, 2, 1), 4, None),
    (f"a state, 5 new tokens, {EXTREMES}",
     (2, 2, 5, 5, 3, 4), extremes, far_before(2, 2, 3, 4, 4)),
    ("a state of 1 token, 7 new tokens, features near 0 and far from it",
     (1, 3, 7, 7, 2, 5), 3, state_before(1, 3, 2, 5, 1)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    return drawn(seed, CALLS)


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


def read_and_keep(read, keep):
    """The answer that reads another state than the one it adds its piece to."""

    def answer(query, key, value, state):
        if state is None:
            return right(query, key, value, state)
        written = right(query, key, value, None)[1]
        return right(query, key, value, read(state, written))[0], keep(state, written)

    return answer


EXERCISE = Exercise(
    name="continue_state",
    answer="read_piece",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h t e", "b h i j"),
    results=("the output", "the new state"),
    measures=("gradients",),
    ideas=[
        Mistake(says, read_and_keep(read, keep))
        for says, read, keep in (
            ("The old state is not read: the piece is read as a text of its own. The new state is "
             "right.", lambda old, new: None, lambda old, new: old + new),
            ("The old state is read, but lost: the new state holds this piece alone.",
             lambda old, new: old, lambda old, new: new),
            ("The piece is in the state before it is read, so that it is read twice.",
             lambda old, new: old + new, lambda old, new: old + new),
        )
    ],
)  # fmt: skip
