"""Exercise linear_window: a window that makes the scores of all pairs, repaired."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded, sized_cases
from attncourse.grading.inputs import alternating, far_below_zero
from attncourse.grading.memory_judge import Budget, MemoryLimited, grows_linearly


def definition(query, key, value, window_size):
    """All pairs, most of them hidden; loops would take minutes for the long sequence."""
    at = torch.arange(query.size(2))
    hidden = 2 * (at[:, None] - at).abs() > window_size
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.size(-1) ** 0.5
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ value


CALLS = (  # special about the call, b h n d e, how loud, window
    ("2 samples, 3 heads, 11 tokens, window 4, values wider than keys", (2, 3, 11, 4, 6), 1, 4),
    ("window 1: only itself", (1, 3, 5, 3, 4), 1, 1),
    ("a window wider than the sequence", (2, 1, 5, 6, 4), 1, 12),
    ("scores near 384 and -384", (2, 3, 8, 4, 3), alternating, 4),
    ("scores below -1e6", (1, 2, 6, 16, 3), far_below_zero, 2),
    ("256 tokens, longer than a block, window 8", (1, 1, 256, 2, 3), 2, 8),
    ("150 tokens, and nearly all of them in a window of 141", (1, 1, 150, 2, 3), 2, 141),
    ("140 tokens, window 6", (1, 2, 140, 3, 2), 1, 6),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    found = sized_cases(seed, "b h n d e", "b h n d, b h n d, b h n e", CALLS)
    found[1].args[1][:, :, 2] = 0.0  # a score of 0 is a score: this is no padding
    return found


def measured(n):
    """A window of 8."""
    return *normal(seeded(7), (1, 1, n, 2), (1, 1, n, 2), (1, 1, n, 3)), 8


@Dataflow
def right(query, key, value, window_size):
    """The keys and values of each query, by their numbers; those beyond the ends are hidden."""
    n, reach = query.size(2), window_size // 2
    at = torch.arange(n)[:, None] + torch.arange(-reach, reach + 1)
    key, value = (x[:, :, at.clamp(0, n - 1)] for x in (key, value))
    beyond = yield "the places beyond the ends", ((at < 0) | (at >= n))[:, None]
    scores = yield "the scaled scores", query[:, :, :, None] @ key.mT / query.size(-1) ** 0.5
    weights = yield "the weights", scores.masked_fill(beyond, -math.inf).softmax(-1)
    return (weights @ value)[:, :, :, 0]


EXERCISE = Exercise(
    name="linear_window",
    answer="linear_mix",
    judge=MemoryLimited(
        Calls(definition, cases),
        "twice as many tokens take twice as much",
        partial(grows_linearly, measured, 128),
        # All pairs would be 1 GiB.
        Budget(lambda g: (*normal(g, *[(1, 1, 2**14, 1)] * 3), 6), right),
        "Give each block of queries only the keys that it may read, blocks of a fixed size, and "
        "join the parts once.",
    ),
    right=right,
    axes=("b h n e",),
    ideas=[
        right.but("Keys at the ends count more than once; each should count once in its window.",
                  "the places beyond the ends", torch.zeros_like),
    ],
)  # fmt: skip
