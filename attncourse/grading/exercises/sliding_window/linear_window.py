"""Exercise linear_window: a window that makes the scores of all pairs and hides most of them, repaired."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
import torch.nn.functional as F

from attncourse.grading.diagnosis import Shown, marked, pairs_of
from attncourse.grading.exercise import (
    Accepted,
    Calls,
    Case,
    Exercise,
    Mistake,
    Mistakes,
    differences,
)
from attncourse.grading.exercises.sliding_window._blocks import row_of_all, slips
from attncourse.grading.exercises.sliding_window._window import (
    alone,
    grows_linearly,
    near,
    table,
    windows,
)
from attncourse.grading.inputs import alternating, far_below_zero, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import ATTENTION, in_place, masks, mistakes_of, scales, softmaxes
from attncourse.grading.recipe import Given, Recipe


def definition(query, key, value, window_size):
    """All pairs, most of them hidden; loops would take minutes for the long sequence."""
    at = torch.arange(query.size(2))
    hidden = 2 * (at[:, None] - at).abs() > window_size
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.size(-1) ** 0.5
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ value


CALLS = (  # what is special, b h n d e, how loud, window
    ("2 samples, 3 heads, 11 tokens, window 4, values wider than keys", (2, 3, 11, 4, 6), 1, 4),
    ("window 3", (3, 2, 7, 5, 3), 1, 3),
    ("window 1: only itself", (1, 3, 5, 3, 4), 1, 1),
    ("a window wider than the sequence", (2, 1, 5, 6, 4), 1, 12),
    ("1 token", (3, 2, 1, 4, 5), 1, 6),
    ("large scores", (2, 2, 9, 3, 4), 60, 2),
    ("scores near 768 and -768", (2, 3, 8, 4, 3), alternating, 4),
    ("scores below -1e6", (1, 2, 6, 16, 3), far_below_zero, 2),
    ("256 tokens, longer than a block, window 8", (1, 1, 256, 2, 3), 2, 8),
    ("150 tokens, and nearly all of them in a window of 141", (1, 1, 150, 2, 3), lambda q, k: None, 141),
)  # fmt: skip


def measured(n):
    """A window of 8."""
    return *normal(torch.Generator().manual_seed(7), *[(1, 1, n, 2)] * 2, (1, 1, n, 3)), 8


def cases(seed: int) -> list[Case]:
    found = sized_cases(seed, "b h n d e", "b h n d, b h n d, b h n e", CALLS)
    found[1].args[1][:, :, 2] = 0.0  # a score of 0 is a score: this is no padding
    return found


@dataclass(frozen=True)
class Short(Calls):
    """`Calls` that compares with mistakes in the table of all pairs where a text is no longer than a block."""

    def notice(self, expected, seen, seed: int) -> str:
        short = marked({what: x for what, x in seen.items() if " tokens, " not in what[:20]})
        if not differences(
            {what: expected[what] for what in short if what in expected},
            {k: x for k, (x, _) in short.items()},
        ):
            return ""
        return next((says for says, x in in_one_block(self, seed) if x.agrees(short, False)), "")


@lru_cache(maxsize=4)
def in_one_block(judge: Short, seed: int) -> list[tuple[str, Shown]]:
    """What the mistakes in one block show, kept for the next check."""
    mistakes = [*IN_ONE_BLOCK, *pairs_of(IN_ONE_BLOCK)]
    return [(x.says, Shown(judge.observe(x.answer, seed))) for x in mistakes]


def given(query, key, value, window_size, rule=near):
    return Given(query, key, value, table(query.size(2), rule, window_size))


RIGHT = Recipe(given, answer=lambda output, *_: output)  # but for its memory
ACCEPTED = Accepted()


@ACCEPTED.add
def blocks(query, key, value, window_size):
    """Some queries, and all keys that any of them may read."""
    n, reach, size, out = query.size(2), window_size // 2, 32, []
    for a in range(0, n, size):
        first, last = max(0, a - reach), min(n, a + size + reach)
        i, j = torch.arange(a, min(a + size, n))[:, None], torch.arange(first, last)
        scores = query[:, :, a : a + size] @ key[:, :, first:last].mT / query.size(-1) ** 0.5
        weights = scores.masked_fill((i - j).abs() > reach, -math.inf).softmax(-1)
        out.append(weights @ value[:, :, first:last])
    return torch.cat(out, dim=2)


@ACCEPTED.add
def fused_blocks(query, key, value, window_size):
    reach, n = window_size // 2, query.size(2)
    size, out = max(16, reach), []
    for a in range(0, n, size):
        near = slice(max(0, a - reach), a + size + reach)
        at = torch.arange(n)
        mask = (at[a : a + size, None] - at[near]).abs() <= reach
        q, k, v = query[:, :, a : a + size], key[:, :, near], value[:, :, near]
        out.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    return torch.cat(out, -2)


@ACCEPTED.add
def unfolded(query, key, value, window_size):
    r = window_size // 2
    pad, width = (0, 0, r, r), 2 * r + 1
    there = F.pad(torch.ones(query.size(2)), (r, r)).unfold(0, width, 1) > 0
    keys, values = (F.pad(x, pad).unfold(2, width, 1) for x in (key, value))
    scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / math.sqrt(query.size(-1))
    weights = torch.softmax(scores.masked_fill(~there, -torch.inf), dim=-1)
    return torch.einsum("bhnw,bhnew->bhne", weights, values)


@ACCEPTED.add
def gathered(query, key, value, window_size):
    n, r = query.size(2), window_size // 2
    j = torch.arange(n)[:, None] + torch.arange(-r, r + 1)
    hidden, j = (j < 0) | (j >= n), j.clamp(0, n - 1)
    scores = (query[:, :, :, None] @ key[:, :, j].mT)[:, :, :, 0] * query.size(-1) ** -0.5
    return (scores.masked_fill(hidden, -math.inf).softmax(-1)[:, :, :, None] @ value[:, :, j])[
        :, :, :, 0
    ]


@ACCEPTED.add
def query_by_query(query, key, value, window_size):
    r, rows = window_size // 2, []
    for i in range(query.size(2)):
        k, v = (x[:, :, max(0, i - r) : i + r + 1] for x in (key, value))
        scores = query[:, :, i : i + 1] @ k.transpose(-1, -2) / math.sqrt(k.size(-1))
        rows.append(scores.softmax(-1) @ v)
    return torch.cat(rows, dim=2)


@ACCEPTED.add
def online_over_distances(query, key, value, window_size):
    """One distance after the other, with the sums of an online softmax."""
    n, r = query.size(2), window_size // 2
    at = torch.arange(n)
    top = torch.full(query.shape[:3], -torch.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(value)
    for x in sorted(range(-r, r + 1), key=abs):  # itself first, so that the maximum is finite
        j = (at + x).clamp(0, n - 1)
        scores = (query * key[:, :, j]).sum(-1) / query.size(-1) ** 0.5
        scores = scores.masked_fill((at + x != j), -math.inf)
        new = torch.maximum(top, scores)
        old, weight = torch.exp(top - new), torch.exp(scores - new)
        total, mixed, top = (
            total * old + weight,
            mixed * old[..., None] + weight[..., None] * value[:, :, j],
            new,
        )
    return mixed / total[..., None]


IN_ONE_BLOCK = [
    *mistakes_of(RIGHT, softmaxes, scales, masks),
    *mistakes_of(RIGHT, windows),
]
MISTAKES = Mistakes([
    Mistake("This is the code as found, or the results are right, but a table of n x n numbers is made on the way, of scores, "
            "of weights or of a mask; give each block of queries only the keys that it may read.", RIGHT),
    Mistake("The results are right, but twice as many tokens take four times as much, part by part: the parts grow with n, each part "
            "meets all keys, or what is there is copied with every part. Cut the keys first, and join the parts once.", row_of_all),
    *mistakes_of(RIGHT, *ATTENTION, in_place, without=("scaled by queries",)),
    *mistakes_of(RIGHT, windows)[:8],
    *alone(mistakes_of(RIGHT, windows)[8:]),
    *alone(mistakes_of(RIGHT, masks, without=("mask unused",))),
    *(Mistake(says, answer) for says, answer in slips()),
])  # fmt: skip

EXERCISE = Exercise(
    name="linear_window",
    answer="linear_mix",
    judge=MemoryLimited(
        Short(definition, cases),
        "twice as many tokens take twice as much",
        partial(grows_linearly, measured, 128),
        # All pairs would be 1 GiB.
        Budget(lambda g: (*normal(g, *[(1, 1, 2**14, 1)] * 3), 6), ACCEPTED["blocks"]),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
