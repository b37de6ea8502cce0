"""Exercise pairs_read: how many pairs of a query and a key does a window with global tokens read, each counted once?"""

from dataclasses import dataclass

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistakes, cases_of
from attncourse.grading.exercises.global_local._steps import (
    Pairs,
    band,
    edge,
    near_to_global,
    uncut,
)
from attncourse.grading.exercises.global_local._tables import ends
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(n, left, right, num_global):
    """Row by row for the global tokens, and for the others one global key each; then near pairs, distance by distance."""
    others = n - num_global
    total = sum(n for _ in range(num_global)) + others * num_global
    for distance in range(-left, right + 1):
        total += max(others - abs(distance), 0)
    return total


def cases(seed: int) -> list[Case]:
    """Small ones to count by hand, drawn ones, and a sequence whose table of pairs fits no memory."""
    g = seeded(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=g))

    calls = (
        (6, 1, 1, 1), (8, 2, 1, 0), (9, 1, 3, 2), (7, 3, 0, 3), (5, 2, 2, 5), (6, 9, 7, 1), (10, 0, 0, 2), (1, 1, 0, 1),
        (between(40, 90), between(3, 9), between(10, 16), between(2, 8)),
        (between(20, 30), between(15, 40), between(6, 10), between(8, 14)),
        (4096 + between(1, 99), 256, 255, between(20, 70)),
        (10**6 + between(1, 10**5), 2048, 1024, between(2, 9)),
    )  # fmt: skip
    names = "n {}, left {}, right {}, {} global"
    return [Case(names.format(*call), call, gradients=False) for call in calls]


UNITS = {  # what is counted once too often, or once too seldom
    "in all": lambda n, left, right, k: 1,
    "for each query": lambda n, left, right, k: n,
    "for each query that is not global": lambda n, left, right, k: n - k,
    "for each global token": lambda n, left, right, k: k,
    "for each global token but the first": lambda n, left, right, k: max(k - 1, 0),
    "for each pair of two global tokens": lambda n, left, right, k: k * k,
    "for each query whose window is cut off at the end of the sequence": lambda n, left, right, k: min(right, n - k),
    "for each query whose window is cut off at its front": lambda n, left, right, k: min(left, n - k),
    "for each near pair of a query that is not global and a global key": lambda n, left, right, k: near_to_global(n, left, k),
    "for each near pair of a global query and a key that is not global": lambda n, left, right, k: near_to_global(n, right, k),
    "for each near pair of a global token and one that is not, in both directions":
        lambda n, left, right, k: near_to_global(n, left, k) + near_to_global(n, right, k),
}  # fmt: skip


@dataclass(frozen=True)
class PairCounts(Counts):
    """`Counts` that can say by what a number is off."""

    def notice(self, expected, seen, seed):
        found = [
            (seen.get(f"{c.label}, output"), expected[f"{c.label}, output"], c.args)
            for c in cases_of(self, seed)
        ]
        if not all(type(got) is int for got, *_ in found):
            return ""
        for what, unit in UNITS.items():
            for sign, word in ((1, "large"), (-1, "small")):
                if all(got - right == sign * unit(*args) for got, right, args in found):
                    return f"The number is too {word} by one {what}."
        if all(
            left >= n - k or right >= n - k
            for got, want, (n, left, right, k) in found
            if got != want
        ):
            return "Only where the window is wider than the tokens behind the global ones, the number is wrong."
        return ""


RIGHT = Pairs()
ACCEPTED = Accepted(window_over_the_rest=RIGHT)


@ACCEPTED.add
def rows_at_once(n, left, right, num_global):
    i = torch.arange(num_global, n)
    low = (i - left).clamp(min=num_global)
    high = (i + right).clamp(max=n - 1)
    return (high - low + 1 + num_global).sum() + n * num_global


@ACCEPTED.add
def diagonals(n, left, right, num_global):
    rest = n - num_global
    window = sum(rest - abs(d) for d in range(max(-left, -rest), min(right, rest) + 1))
    return num_global * (2 * n - num_global) + window


@ACCEPTED.add
def all_pairs_but_the_far_ones(n, left, right, num_global):
    """What is not read are two triangles."""
    rest = n - num_global
    a, b = max(rest - 1 - left, 0), max(rest - 1 - right, 0)
    return n**2 - (a * a + a) // 2 - (b * b + b) // 2


def ended(before, behind):
    """The step ``window`` with other ends."""
    return lambda n, left, right: band(n, before(left, right), behind(left, right))


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("Pairs that are near and have a global token are counted twice; count each once.", {"rest": lambda n, k: n}),
    ("Pairs of two global tokens are counted twice; count each once.", {"hub": lambda n, k: 2 * k * n}),
    ("Nothing is counted once where both rules hold: n rows, n columns and the whole window are simply added.",
     {"hub": lambda n, k: 2 * k * n, "rest": lambda n, k: n}),
    ("Global tokens are read by all, but they read all as well: their rows are missing.",
     {"hub": lambda n, k: k * (n - k)}),
    ("Global tokens read all, but they are read by all as well: their columns are missing.", {"hub": lambda n, k: k * n}),
    ("Only the pairs of two global tokens are counted for them; they read all and are read by all.",
     {"hub": lambda n, k: k * k}),
    ("Pairs of two global tokens are left out; they read each other.", {"hub": lambda n, k: 2 * k * (n - k)}),
    ("The global tokens are left out.", {"hub": lambda n, k: 0}),
    ("The global tokens are not used: only a window over all tokens is counted.",
     {"hub": lambda n, k: 0, "rest": lambda n, k: n}),
    ("There is one global token here, whatever num_global is.",
     {"hub": lambda n, k: 2 * n - 1, "rest": lambda n, k: n - 1}),
    ("From all global rows and columns only g pairs are taken off; g * g pairs lie in both.",
     {"hub": lambda n, k: 2 * k * n - k}),
    ("These are the pairs of a causal model; here queries read keys behind them as well.",
     {"hub": lambda n, k: k * n - k * (k - 1) // 2, "window": lambda n, left, right: band(n, left, 0)}),
    *((f"One global token too {word} is counted.",
       {"hub": lambda n, k, x=x: 2 * (k + x) * n - (k + x) ** 2, "rest": lambda n, k, x=x: max(n - k - x, 0)})
      for word, x in (("many", 1), ("few", -1))),
    ("The window is lost: only pairs with a global token are counted.", {"window": lambda n, left, right: 0}),
    ("Every query is taken to have a whole window; at the ends of the sequence a part of it is not there.",
     {"window": uncut}),
    ("Every query is taken to have as many keys as one in the middle; at the ends of the sequence some are not there.",
     {"window": lambda n, left, right: n * min(n, left + 1 + right)}),
    ("The window is cut at one end of the sequence only.",
     {"window": lambda n, left, right: band(n, left, right) + edge(n, right)}),
    ("The window is cut at one end of the sequence only.",
     {"window": lambda n, left, right: band(n, left, right) + edge(n, left)}),
    ("A window that is wider than the sequence goes on beyond it; no query has more than n keys.",
     {"window": lambda n, left, right: uncut(n, left, right) - left * (left + 1) // 2 - right * (right + 1) // 2}),
    ("The query's own key is left out; it reads itself.", {"window": lambda n, left, right: band(n, left, right) - n}),
    ("The edges are cut off as squares; they are triangles, d * (d + 1) / 2 pairs.",
     {"window": lambda n, left, right: n + sum(d * (n - d) for d in (min(left, n), min(right, n)))}),
    ("Twice the triangles at the edges are taken off; each has d * (d + 1) / 2 pairs.",
     {"window": lambda n, left, right: 2 * band(n, left, right) - n * (1 + min(left, n - 1) + min(right, n - 1))}),
    ("The triangles at the edges have d * (d - 1) / 2 pairs here; d keys are missing in the first row, so it is d * (d + 1) / 2.",
     {"window": lambda n, left, right: n + sum(d * n - d * (d - 1) // 2 for d in (min(left, n - 1), min(right, n - 1)) if n)}),
    ("These are the pairs that are not read; those that are read are asked.", {"finish": lambda total, n: n * n - total}),
    *(("This is a share of all pairs; their number is asked.", {"finish": lambda total, n, x=x: x * total / (n * n)}) for x in (1, 100)),
    *(("This is a mean over the queries; the number of all pairs is asked.", {"finish": x})
      for x in (lambda total, n: total / n, lambda total, n: total // n, lambda total, n: round(total / n))),
    ("These are all pairs, n * n; far ones are not read.", {"finish": lambda total, n: n * n}),
    ("The number is a float; pairs are counted in whole numbers.", {"finish": lambda total, n: float(total)}),
    ("The number overflows; there are more pairs than 32 bits can count.",
     {"finish": lambda total, n: (total + 2**31) % 2**32 - 2**31}),
))  # fmt: skip


def table(n, left, right, num_global):
    """Right, with all n * n pairs."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    visible = (i - left <= j) & (j <= i + right) | (i < num_global) | (j < num_global)
    return int(visible.sum())


MISTAKES += [Mistake(says, answer) for says, answer in (
    ("These are n windows and n times the global tokens: nothing is taken off at the ends, nor where both rules hold, and "
     "the rows of the global tokens are missing.", lambda n, left, right, k: n * (left + 1 + right + k)),
    ("These are n windows without the query's own key and n times the global tokens: nothing is taken off at the ends, nor "
     "where both rules hold, and the rows of the global tokens are missing.", lambda n, left, right, k: n * (left + right + k)),
    ("These are the keys of one query; the pairs of all queries are asked.", lambda n, left, right, k: left + 1 + right + k),
    ("These are the keys of one query; the pairs of all queries are asked.", lambda n, left, right, k: min(n, left + 1 + right + k)),
    ("The two parts are returned one by one; return their sum.",
     lambda n, left, right, k: (band(n - k, left, right), n * n - (n - k) ** 2)),
)] + [
    *ends(RIGHT, "window", ended, without=("exchanged", "short", "open on the left", "open on the right")),
    Mistake("A table of all n * n pairs is made, and for millions of tokens no memory can hold it; count without it.", table)
]  # fmt: skip

EXERCISE = Exercise(
    name="pairs_read", judge=PairCounts(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
