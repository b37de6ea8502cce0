"""Exercise repair_global: a causal model whose chunks read a state of the whole text, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake
from attncourse.grading.feature_inputs import EXTREMES, UNIT, drawn, elu_plus_one, extremes


def definition(query, key, value, size):
    """The loops of the course, pair by pair; the size of a chunk changes nothing."""
    return spec.linear_attention(query, key, value, is_causal=True)[0]


CALLS = (  # special about the call, b h n m d e, how loud, size
    ("2 samples, 3 heads, 7 tokens, chunks of 3, values 5 wide", (2, 3, 7, 7, 4, 5), 1, 3),
    (f"chunks of 2, {UNIT}", (1, 2, 8, 8, 3, 0), 1, 2),
    ("values of 1 number, chunks of 4", (1, 2, 6, 6, 2, 1), 4, 4),
    ("chunks of 1", (1, 3, 5, 5, 3, 4), 1, 1),
    ("one chunk, as long as the text", (3, 2, 6, 6, 5, 3), 1, 6),
    ("a chunk longer than the text", (2, 1, 5, 5, 4, 6), 1, 8),
    ("1 token", (2, 3, 1, 1, 5, 4), 1, 2),
    ("11 tokens, chunks of 4, features near 0 and far from it", (1, 2, 11, 11, 2, 3), 4, 4),
    (f"7 tokens, chunks of 3, {EXTREMES}", (2, 2, 7, 7, 3, 4), extremes, 3),
)


def cases(seed: int) -> list[Case]:
    return drawn(seed, CALLS)


def chunks_between(n, size):
    """By how many chunks, and by how many tokens, a query comes after a key."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return i // size - j // size, i - j


@Dataflow
def right(query, key, value, size):
    q = yield "the features of the queries", elu_plus_one(query)
    k = yield "the features of the keys", elu_plus_one(key)
    chunks, tokens = chunks_between(query.size(2), size)
    earlier = yield "the weights of earlier chunks", q @ k.mT * (chunks > 0)
    own = yield "the weights inside a chunk", q @ k.mT * ((chunks == 0) & (tokens >= 0))
    weights = yield "the weights", earlier + own
    sums = yield "the weighted sums of the values", weights @ value
    total = yield "the sums of the weights", weights.sum(-1)
    return sums / total[..., None]


def counting(rule):
    """The answer whose weights count by a rule of the chunks and tokens between two places."""

    def answer(query, key, value, size):
        counts = rule(*chunks_between(query.size(2), size)).float()
        weights = elu_plus_one(query) @ elu_plus_one(key).mT * counts
        return weights @ value / weights.sum(-1, keepdim=True)

    return answer


EXERCISE = Exercise(
    name="repair_global",
    answer="causal_in_chunks",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e",),
    measures=("gradients",),
    ideas=[
        Mistake(says, counting(rule))
        for says, rule in (
            ("This is the code as found, or does the same: the state is that of the whole text, "
             "and without its own chunk there are still the later ones in it.",
             lambda c, t: (c != 0) | (t >= 0)),
            ("The state of the whole text is read as it is: a chunk reads itself twice, and what "
             "comes later.", lambda c, t: 1 + ((c == 0) & (t >= 0)).float()),
            ("The chunk is in the state before the state is read, so that it is read twice: whole, "
             "and below the triangle.", lambda c, t: (c >= 0) + ((c == 0) & (t >= 0)).float()),
            ("The state comes a chunk late: the chunk right before is not read.",
             lambda c, t: (c > 1) | (c == 0) & (t >= 0)),
            ("The first chunks count more and more: the old state is added to itself with each "
             "chunk.", lambda c, t: torch.where(c > 0, 2.0 ** (c - 1), (c == 0) & (t >= 0))),
        )
    ],
)  # fmt: skip
