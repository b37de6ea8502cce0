"""Exercise odd_window: a window that is lopsided, and empty for some, repaired."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise
from attncourse.grading.inputs import alternating, far_below_zero, sized_cases


def definition(query, key, value, window_size, present):
    """The attention of the course, with a mask that is filled in pair by pair."""
    n = query.size(2)
    close = spec.sliding_window(n, n, window_size // 2, window_size // 2)
    visible = (close & present[:, None, None, :]).expand(*query.shape[:3], n)
    return spec.scaled_dot_product_attention(query, key, value, visible)[0]


CALLS = (  # special about the call, b h n d e, how loud, window, real tokens from .. to
    ("2 samples, 3 heads, 7 tokens, window 3", (2, 3, 7, 4, 6), 1, 3, (0, 0), (7, 7)),
    ("window 1: only itself", (2, 2, 4, 5, 3), 1, 1, (0, 0), (4, 4)),
    ("window 5, padding in front", (3, 2, 9, 4, 3), 1, 5, (0, 4, 6), (9, 9, 9)),
    ("window 3, padding behind, a sample of padding alone", (3, 1, 6, 5, 4), 1, 3,
     (0, 0, 0), (6, 2, 0)),
    ("a window wider than the sequence", (2, 3, 5, 6, 4), 1, 13, (0, 1), (5, 5)),
    ("scores near 384 and -384", (2, 3, 6, 4, 3), alternating, 3, (0, 3), (6, 6)),
    ("scores below -1e6", (2, 1, 5, 16, 3), far_below_zero, 2, (0, 2), (5, 5)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    calls = []
    for what, sizes, loud, window, start, end in CALLS:
        at = torch.arange(sizes[2])
        present = (at >= torch.tensor(start)[:, None]) & (at < torch.tensor(end)[:, None])
        calls.append((what, sizes, loud, window, present))
    return sized_cases(seed, "b h n d e", "b h n d, b h n d, b h n e", calls)


@Dataflow
def right(query, key, value, window_size, present):
    at = torch.arange(query.size(2))
    visible = ((at[:, None] - at).abs() <= window_size // 2) & present[:, None, None, :]
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
    weights = yield "the weights", weights.nan_to_num(0.0)
    return weights @ value


EXERCISE = Exercise(
    name="odd_window",
    answer="repaired_window",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e",),
)
