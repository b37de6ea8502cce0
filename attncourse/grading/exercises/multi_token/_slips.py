"""Other masks, other windows and other edges: steps of `Convolved` that go wrong."""

import torch
from torch import Tensor

from attncourse.grading.exercises.multi_token._convolved import slide
from attncourse.grading.recipe import triangle


def corner(n, m):
    """Aligned to the first key: query i is token i."""
    return ~triangle(n, m, 0)


def strict(n, m):
    return ~triangle(n, m, m - n - 1)


def one_ahead(n, m):
    return ~triangle(n, m, m - n + 1)


def past(n, m):
    return triangle(n, m, m - n)


def filled(value):
    return lambda scores, hidden: scores.masked_fill(hidden, value)


def in_place(scores, hidden):
    return scores.masked_fill_(hidden, 0.0)


def moved(left=0, right=0, top=0, bottom=0):
    """The window with more zeros at an edge, or fewer."""
    return lambda c_q, c_k: (c_k // 2 + left, c_k // 2 + right, c_q - 1 + top, bottom)


def same_on_both_sides(c_q, c_k):
    return c_k // 2, c_k // 2, c_q // 2, (c_q - 1) // 2


def more_below(c_q, c_k):
    return c_k // 2, c_k // 2, (c_q - 1) // 2, c_q // 2


def all_heads(table: Tensor, kernel: Tensor) -> Tensor:
    """The convolved tables of all heads, added up for each."""
    return slide(table, kernel).sum(1, keepdim=True).expand(-1, kernel.size(0), -1, -1)


def edge(mode):
    def pad(table, window):
        left, right, top, bottom = window
        columns = torch.arange(-left, table.size(3) + right)
        rows = torch.arange(-top, table.size(2) + bottom)
        wrap = (lambda x, n: x % n) if mode == "wrap" else (lambda x, n: x.clamp(0, n - 1))
        return table[:, :, wrap(rows, table.size(2))][..., wrap(columns, table.size(3))]

    return pad


WINDOWS = (
    ("The window is centred in the queries, so that it looks at later ones; it ends at the query itself.",
     {"window": same_on_both_sides}),
    ("The window is centred in the queries, so that it looks at later ones; it ends at the query itself.",
     {"window": more_below}),
    ("The window starts at the query and looks ahead at later ones; it ends there and looks back.",
     {"window": lambda c_q, c_k: (c_k // 2, c_k // 2, 0, c_q - 1)}),
    ("The window ends at the key itself, as it does in the queries; in the keys it is centred.",
     {"window": lambda c_q, c_k: (c_k - 1, 0, c_q - 1, 0)}),
    ("The window starts at the key; it is centred in the keys.", {"window": lambda c_q, c_k: (0, c_k - 1, c_q - 1, 0)}),
    ("The window ends one query too early: the query itself is left out.", {"window": moved(top=1, bottom=-1)}),
    ("The window ends one query too late: it looks at the next query.", {"window": moved(top=-1, bottom=1)}),
    ("The window stands one key too far to the left.", {"window": moved(left=1, right=-1)}),
    ("The window stands one key too far to the right.", {"window": moved(left=-1, right=1)}),
)  # fmt: skip
