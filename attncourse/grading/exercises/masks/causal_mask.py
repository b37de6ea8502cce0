"""Exercise causal_mask: who may read whom when nobody may look ahead."""

import numpy as np
import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """More keys than queries, fewer, equally many, and the smallest sizes."""
    sizes = [(5, 7), (7, 3), (4, 4), (1, 3), (2, 1), (2 + seed % 5, 11), (130, 3), (2, 300)]
    return [Case(f"{n} queries, {m} keys", (n, m), gradients=False) for n, m in sizes]


ACCEPTED = Accepted()


@ACCEPTED.add
def lower_triangle(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril()


@ACCEPTED.add
def comparison_of_positions(n, m):
    return torch.arange(m) <= torch.arange(n)[:, None]


@ACCEPTED.add
def loops(n, m):
    mask = torch.zeros(n, m, dtype=torch.bool)
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


@ACCEPTED.add
def not_the_future(n, m):
    return ~torch.triu(torch.ones(n, m), diagonal=1).bool()


@ACCEPTED.add
def nested_lists(n, m):
    return torch.tensor([[j <= i for j in range(m)] for i in range(n)])


@ACCEPTED.add
def numpy_triangle(n, m):
    return torch.from_numpy(np.tri(n, m, dtype=bool))


MISTAKES = Mistakes()


def rule(n, m, visible):
    """The table of a rule visible(i, j)."""
    return visible(torch.arange(n)[:, None], torch.arange(m))


@MISTAKES.add("True marks the hidden pairs here; it must mark the pairs that may attend.")
def true_hides(n, m):
    return rule(n, m, lambda i, j: j > i)


@MISTAKES.add("The upper triangle is kept: each query reads itself and the future, not the past.")
def future_kept(n, m):
    return rule(n, m, lambda i, j: j >= i)


@MISTAKES.add("A query cannot read itself: the diagonal must be visible, j <= i and not j < i.")
def strict(n, m):
    return rule(n, m, lambda i, j: j < i)


@MISTAKES.add("Each query reads one position too far ahead: j <= i, not j <= i + 1.")
def one_too_far(n, m):
    return rule(n, m, lambda i, j: j <= i + 1)


@MISTAKES.add("The last query is aligned with the last key; align the first ones (top-left).")
def bottom_right(n, m):
    return rule(n, m, lambda i, j: j <= i + m - n)


@MISTAKES.add("The triangle is shifted by n - m; its corner is at query 0 and key 0.")
def shifted_wrong_way(n, m):
    return rule(n, m, lambda i, j: j <= i + n - m)


@MISTAKES.add("The mask holds ones and zeros; its dtype must be torch.bool.")
def numbers(n, m):
    return torch.ones(n, m).tril()


@MISTAKES.add("Zeros and minus infinities are a mask to be added; return booleans.")
def additive(n, m):
    return torch.full((n, m), float("-inf")).triu(1)


@MISTAKES.add(
    "0 times minus infinity is NaN: multiplying a triangle by -inf spoils the visible pairs."
)
def infinity_times_zero(n, m):
    return (1 - torch.ones(n, m).tril()) * float("-inf")


@MISTAKES.add("The shape is (m, n); the queries are the rows: (n, m).")
def axes_swapped(n, m):
    return torch.ones(m, n, dtype=torch.bool).tril()


@MISTAKES.add("The mask is transposed after it was built; its rows are the keys.")
def transposed(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril().T


@MISTAKES.add("The mask is n by n; the number of keys m is not used.")
def square_of_queries(n, m):
    return torch.ones(n, n, dtype=torch.bool).tril()


@MISTAKES.add("The mask is m by m; the number of queries n is not used.")
def square_of_keys(n, m):
    return torch.ones(m, m, dtype=torch.bool).tril()


@MISTAKES.add("Only the diagonal is visible; a query reads the past as well.")
def only_itself(n, m):
    return rule(n, m, lambda i, j: j == i)


@MISTAKES.add("Every pair is visible; nothing is masked.")
def everything(n, m):
    return torch.ones(n, m, dtype=torch.bool)


@MISTAKES.add("The mask has axes for batch and heads; return two axes (n, m), they broadcast.")
def four_axes(n, m):
    return torch.ones(1, 1, n, m, dtype=torch.bool).tril()


EXERCISE = Exercise(
    name="causal_mask",
    answer="causal_mask",
    title="A causal mask",
    kind="Implement",
    points=1,
    difficulty=1,
    minutes=5,
    needs="section 'By hand' of chapter 2",
    judge=Calls(spec.causal, cases, gradients=False),
    hints=(
        "Draw the mask for 2 queries and 4 keys on paper. Query 0 reads key 0, query 1 keys 0 and 1.",
        "Compare two vectors of positions: the queries as a column, the keys as a row.",
        "torch.arange(m) <= torch.arange(n)[:, None] has shape (n, m) and dtype torch.bool.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
