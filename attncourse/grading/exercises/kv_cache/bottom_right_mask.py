"""Exercise bottom_right_mask: who may read whom behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.mistakes import rules
from attncourse.grading.noticing import Noticing


def definition(n, past):
    """The mask of the course: query i stands at position past + i."""
    return spec.causal(n, past + n, offset=past)


def cases(seed: int) -> list[Case]:
    """More past than new, less, equally much; no past; a single query."""
    sizes = [
        (3, 4),
        (5, 2),
        (3, 3),
        (4, 0),
        (1, 6),
        (1, 1),
        (1, 0),
        (2, 1),
        (2 + seed % 5, 11),
        (40, 130),
    ]
    return [Case(f"{n} new queries, {p} cached", (n, p), gradients=False) for n, p in sizes]


def grid(n, past):
    return torch.arange(n)[:, None], torch.arange(past + n)


def hidden_or_shown(case: Case, expected: torch.Tensor, seen: torch.Tensor) -> str:
    """Which pairs of the first wrong mask are wrong, and what they are to each other."""
    (n, past), seen = case.args, seen.bool()
    query, key = grid(n, past)
    pairs = (
        ("a query reads tokens that come after it", seen & ~expected),
        ("a query does not read itself", ~seen & (key == query + past)),
        ("a query does not read all cached tokens", ~seen & (key < past)),
        ("a query does not read all new tokens before itself", ~seen & (key >= past) & (key < query + past)),
    )  # fmt: skip
    said = [says for says, wrong in pairs if (wrong & (expected != seen)).any()]
    return f"With {n} new and {past} cached tokens {'; '.join(said)}."


ACCEPTED = Accepted()


@ACCEPTED.add
def shifted_triangle(n, past):
    return torch.ones(n, past + n, dtype=torch.bool).tril(diagonal=past)


@ACCEPTED.add
def comparison_of_positions(n, past):
    query, key = grid(n, past)
    return key <= query + past


@ACCEPTED.add
def two_blocks(n, past):
    return torch.cat([torch.ones(n, past).bool(), torch.ones(n, n).tril().bool()], dim=1)


@ACCEPTED.add
def last_rows_of_the_whole(n, past):
    return torch.ones(past + n, past + n, dtype=torch.bool).tril()[past:]


@ACCEPTED.add
def loops(n, past):
    mask = torch.zeros(n, past + n, dtype=torch.bool)
    for i in range(n):
        mask[i, : past + i + 1] = True
    return mask


@ACCEPTED.add
def not_the_future(n, past):
    return torch.triu(torch.ones(n, past + n), past + 1) == 0


MISTAKES = Mistakes(
    Mistake(says, lambda n, p, rule=steps["rule"]: rule(n, p + n, p))
    for name, says, steps in rules(None) if name != "bottom right"
)  # fmt: skip
for says, rule in (  # (number of the query, of the key, number of queries, of cached tokens) -> mask
    ("True marks the hidden pairs here; it must mark the pairs that may attend.", lambda i, j, n, p: j > i + p),
    ("The triangle is shifted by n; shift it by the number of cached tokens.", lambda i, j, n, p: j <= i + n),
    ("The triangle is shifted to the wrong side: j <= i + past.", lambda i, j, n, p: j <= i - p),
    ("The triangle is reversed from left to right; query i reads keys 0 to past + i.",
     lambda i, j, n, p: (j <= i + p).flip(1)),
    ("The queries stand in the opposite order; row 0 is the first new query.", lambda i, j, n, p: (j <= i + p).flip(0)),
    ("The cached tokens are hidden; every new query reads all of them.", lambda i, j, n, p: (j >= p) & (j <= i + p)),
    ("Only the cached tokens are visible; a new query also reads new tokens up to itself.",
     lambda i, j, n, p: (j < p) & (i >= 0)),
    ("Of the new tokens a query reads itself only; it also reads those before itself.",
     lambda i, j, n, p: (j < p) | (j == i + p)),
    ("There is a mask only when nothing is cached; a chunk behind a cache needs one, too.",
     lambda i, j, n, p: (j <= i) | (p > 0)),
    ("No pair may attend; each query reads all keys up to itself.", lambda i, j, n, p: (j < 0) & (i >= 0)),
    ("The triangle of the new tokens is turned around: they read themselves and later ones.",
     lambda i, j, n, p: (j < p) | (j >= i + p)),
    ("A query reads only the past + 1 tokens up to itself, a window; it reads all from key 0 on.",
     lambda i, j, n, p: (j <= i + p) & (j >= i)),
    ("A query reads only itself and the token before; it reads all from key 0 on.",
     lambda i, j, n, p: (j <= i + p) & (j >= i + p - 1)),
    ("Rows and columns are both reversed; row 0 is the first new query, column 0 the first key.",
     lambda i, j, n, p: (j <= i + p).flip(0, 1)),
    ("The triangle is shifted by n - 1; shift it by the number of cached tokens.", lambda i, j, n, p: j <= i + n - 1),
    ("The triangle is shifted by past - n; shift it by the number of cached tokens.", lambda i, j, n, p: j <= i + p - n),
    ("There is one row, for a single query; there are n.", lambda i, j, n, p: (j < p + n)[None]),
    ("The mask has past rows instead of n; the new tokens ask.", lambda i, j, n, p: j <= torch.arange(p)[:, None] + n),
    ("The mask holds ones and zeros; its dtype must be torch.bool.", lambda i, j, n, p: (j <= i + p).float()),
    ("Zeros and minus infinities are a mask to be added; return booleans.",
     lambda i, j, n, p: torch.zeros(n, p + n).masked_fill(j > i + p, -torch.inf)),
    ("A list of lists is returned; return a tensor of booleans.", lambda i, j, n, p: (j <= i + p).tolist()),
    ("The shape is (past + n, n); the queries are the rows: (n, past + n).", lambda i, j, n, p: (j <= i + p).T),
    ("The mask has axes for batch and heads; return two axes, they broadcast.", lambda i, j, n, p: (j <= i + p)[None, None]),
    ("Axes of size 1 are squeezed away; keep all of them.", lambda i, j, n, p: (j <= i + p).squeeze()),
    ("The causal mask is (n, n); it has one row a query and one column a key: (n, m).", lambda i, j, n, p: (j <= i)[:, :n]),
    ("The mask has rows for the cached tokens, too; only the n new ones ask.",
     lambda i, j, n, p: j <= torch.arange(p + n)[:, None]),
    ("The mask has only the columns of the cached tokens; the new ones are keys, too.",
     lambda i, j, n, p: (j <= i + p)[:, :p]),
    ("The new tokens stand before the cached ones here; the cached ones come first.",
     lambda i, j, n, p: (j <= i) | (j >= n)),
    ("All queries get the row of the first one; each reads up to itself.", lambda i, j, n, p: (j <= p) & (i >= 0)),
):  # fmt: skip
    MISTAKES.append(Mistake(says, lambda n, p, rule=rule: rule(*grid(n, p), n, p)))

EXERCISE = Exercise(
    name="bottom_right_mask",
    judge=Noticing(definition, cases, False, hidden_or_shown),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
