"""Exercise odd_window: a window that is lopsided, and empty for some, repaired."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistakes
from attncourse.grading.exercises.sliding_window._padded import PADDING, RIGHT, filled, reads
from attncourse.grading.exercises.sliding_window._window import (
    alone,
    as_found,
    near,
    reaches,
    table,
    windows,
)
from attncourse.grading.inputs import alternating, far_below_zero, sized_cases
from attncourse.grading.mistakes import ATTENTION, in_place, masks, mistakes_of, softmaxes
from attncourse.grading.recipe import hide


def definition(query, key, value, window_size, present):
    """The attention of the course, with a mask that is filled in pair by pair."""
    n = query.size(2)
    close = spec.sliding_window(n, n, window_size // 2, window_size // 2)
    visible = (close & present[:, None, None, :]).expand(*query.shape[:3], n)
    return spec.scaled_dot_product_attention(query, key, value, visible)[0]


CALLS = (  # what is special, b h n d e, how loud, window, real tokens from .. to
    ("2 samples, 3 heads, 7 tokens, window 3", (2, 3, 7, 4, 6), 1, 3, (0, 0), (7, 7)),
    ("window 1: only itself", (2, 2, 4, 5, 3), 1, 1, (0, 0), (4, 4)),
    ("window 4", (1, 3, 8, 3, 5), 1, 4, (0,), (8,)),
    ("window 5, padding in front", (3, 2, 9, 4, 3), 1, 5, (0, 4, 6), (9, 9, 9)),
    ("window 3, padding behind, a sample of padding alone", (3, 1, 6, 5, 4), 1, 3, (0, 0, 0), (6, 2, 0)),
    ("a window wider than the sequence", (2, 3, 5, 6, 4), 1, 13, (0, 1), (5, 5)),
    ("large scores", (2, 2, 8, 3, 4), 60, 5, (3, 0), (8, 4)),
    ("scores near 768 and -768", (2, 3, 6, 4, 3), alternating, 3, (0, 3), (6, 6)),
    ("scores below -1e6", (2, 1, 5, 16, 3), far_below_zero, 2, (0, 2), (5, 5)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    calls = []
    for what, sizes, loud, window, start, end in CALLS:
        at = torch.arange(sizes[2])
        present = (at >= torch.tensor(start)[:, None]) & (at < torch.tensor(end)[:, None])
        calls.append((what, sizes, loud, window, present))
    return sized_cases(seed, "b h n d e", "b h n d, b h n d, b h n e", calls)


ACCEPTED = Accepted(filled_before_and_after=RIGHT)


@ACCEPTED.add
def fused(query, key, value, window_size, present):
    n = query.size(-2)
    ones = torch.ones(n, n, dtype=torch.bool)
    ones = ones.triu(-(window_size // 2)).tril(window_size // 2)
    return F.scaled_dot_product_attention(query, key, value, ones & present[:, None, None])


@ACCEPTED.add
def nan_replaced(query, key, value, window_size, present):
    close = table(query.size(2), near, window_size) & present[:, None, None]
    scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(~close, -math.inf)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ value


@ACCEPTED.add
def sums_of_exponentials(query, key, value, window_size, present):
    n = query.size(2)
    hidden = torch.ones(n, n).triu(window_size // 2 + 1).bool()
    hidden = (hidden | hidden.T) | ~present.unsqueeze(1).unsqueeze(1)
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.size(3))
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(hidden, 0)
    return weights @ value / weights.sum(-1, keepdim=True).clamp(min=1e-30)


@ACCEPTED.add
def lowest_and_then_zero(query, key, value, window_size, present):
    i = torch.arange(query.size(2))
    allowed = ((i.view(-1, 1) - i).abs() <= window_size / 2) & present[:, None, None, :]
    scores = torch.where(allowed, query @ key.mT * query.shape[-1] ** -0.5, -1e30)
    return (scores.softmax(-1) * allowed) @ value


@ACCEPTED.add
def query_by_query(query, key, value, window_size, present):
    """One sample and one query after the other, with the keys that are left."""
    reach, rows = window_size // 2, []
    for b in range(len(query)):
        for i in range(query.size(2)):
            j = torch.arange(max(0, i - reach), min(query.size(2), i + reach + 1))
            j = j[present[b, j]]
            scores = query[b, :, i : i + 1] @ key[b][:, j].mT / query.size(-1) ** 0.5
            rows.append(torch.softmax(scores, -1) @ value[b][:, j])
    return torch.cat(rows, 1).unflatten(1, (len(query), -1)).transpose(0, 1)


NAN_REPLACED = replace(RIGHT, mask=hide, finish=lambda w, x: w.nan_to_num(0.0))
PLAIN = {"mask": hide, "finish": lambda w, x: w}
NOTHING_LEFT = "a query with nothing to read gives 0"
MISTAKES = Mistakes([
    RIGHT.but("This is the code as found: an odd window reaches one key too far to the left, and a query with nothing to "
              "read gives NaN.", **PLAIN, **reads(rule=as_found)),
    RIGHT.but(f"A query with nothing to read still gives NaN, of a row of minus infinity; {NOTHING_LEFT}.", **PLAIN),
    RIGHT.but("The output is right, but the gradients are NaN: minus infinity was added to a whole row of scores. masked_fill has "
              "no gradient where it fills, or give such a row finite scores.",
              mask=lambda s, x: s + torch.where(x.visible, 0.0, -math.inf), finish=lambda w, x: w.nan_to_num(0.0)),
    RIGHT.but(f"{NOTHING_LEFT.capitalize()}; here it averages all keys, because the hidden scores are a very low number and "
              "not minus infinity, or the row is set to 0 before the softmax only.", **filled(-1e30)),
    *(RIGHT.but("Hidden scores become a number such as -1e4, which is more than some scores; and a query with nothing to read "
                "averages all keys with it.", **filled(fill)) for fill in (-1.0, -10.0, -1e2, -1e3, -1e4, -1e5, -1e6, -1e7, -1e8)),
    RIGHT.but("The output is right, but its NaN is replaced after the weights have met the values, and the gradient of the values is "
              "NaN; replace it among the weights.", **PLAIN, answer=lambda o, *_: o.nan_to_num(0.0)),
    *mistakes_of(RIGHT, *ATTENTION, in_place, without=("scaled by queries",)),
    *mistakes_of(RIGHT, windows)[:8],
    *alone(mistakes_of(RIGHT, windows, reaches)[8:]),
    *alone(mistakes_of(RIGHT, masks)),
    *alone(mistakes_of(NAN_REPLACED, softmaxes)),
    *alone(RIGHT.but(says, **steps) for says, steps in PADDING),
])  # fmt: skip

EXERCISE = Exercise(
    name="odd_window",
    answer="repaired_window",
    judge=Calls(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
