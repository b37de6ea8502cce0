"""Exercise repair_positions: a bias by distance that wraps around, and starts anew behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.noticing import Noticing, apart
from attncourse.grading.observe import Case


def definition(table, n, m):
    """What `spec.relative_bias` adds to a score of 0; query i stands at m - n + i."""
    rule = spec.relative_bias(table)
    zero = torch.zeros((), dtype=table.dtype)
    return torch.stack([
        rule(zero, 0, h, m - n + i, j) for h in range(len(table)) for i in range(n) for j in range(m)
    ]).view(len(table), n, m)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    calls = (  # heads, reach, n, m
        ("3 heads, reach 4, 3 queries, 3 keys", 3, 4, 3, 3),
        ("2 heads, reach 2, 6 queries, 6 keys: further than the table", 2, 2, 6, 6),
        ("4 heads, reach 3, 2 queries at the end of 7 keys", 4, 3, 2, 7),
        ("1 new query behind 10 keys, reach 5", 3, 5, 1, 11),
        ("reach 1, 4 queries, 9 keys", 5, 1, 4, 9),
        ("reach 0: one number for all", 2, 0, 2, 3),
        ("1 head, 1 query, 1 key", 1, 2, 1, 1),
    )
    return [Case(what, (*normal(g, (h, 2 * r + 1)), n, m)) for what, h, r, n, m in calls]


def columns(case, expected, seen):
    """For which distance and head is the number that the first wrong pair gets?"""
    table, n, m = case.args
    h, i, j = apart(expected, seen).nonzero()[0].tolist()
    found = (table.double() == seen[h, i, j].double()).nonzero().tolist()
    what = f"In the first call that is wrong, head {h}, query {i} (at position {m - n + i}) and key {j} get"
    if not found:
        return f"{what} {seen[h, i, j].item():.4g}, which does not stand in the table."
    head, column = found[0]
    reach, apart_by = table.size(1) // 2, m - n + i - j
    of = "" if head == h else f" of head {head}"
    right = max(-reach, min(reach, apart_by))
    far = (
        f", and beyond {reach} the last column counts: that for {right}"
        if right != apart_by
        else ""
    )
    return (
        f"{what} the number for distance {column - reach}{of}; their distance is {apart_by}{far}."
    )


def bias(
    table,
    n,
    m,
    start=lambda n, m: m - n,
    column=lambda x, r: x.clamp(-r, r) + r,
    distance=torch.sub,
):
    """The rule in steps, with what people change."""
    i, j = start(n, m) + torch.arange(n)[:, None], torch.arange(m)
    return table[:, column(distance(i, j), table.size(1) // 2)]


def folded(limit):
    """Indices as Python reads them: negative ones count from the end."""
    return lambda x, r: limit(x, r) % (2 * r + 1)


ACCEPTED = Accepted(clamp=bias)


@ACCEPTED.add
def loops(table, n, m):
    r = (table.shape[1] - 1) // 2
    rows = []
    for i in range(n):
        rows.append(
            torch.stack([table[:, min(max(m - n + i - j, -r), r) + r] for j in range(m)], dim=1)
        )
    return torch.stack(rows, dim=1)


@ACCEPTED.add
def last_rows_of_the_square(table, n, m):
    r, at = table.size(1) // 2, torch.arange(m)
    square = (at.view(m, 1) - at).clip(-r, r) + r
    return table[:, square[m - n :]].contiguous()


@ACCEPTED.add
def one_hot_product(table, n, m):
    r = table.size(1) // 2
    apart = torch.arange(m - n, m)[:, None] - torch.arange(m)[None]
    where = torch.nn.functional.one_hot(torch.clamp(apart, min=-r, max=r) + r, 2 * r + 1)
    return torch.einsum("hr,nmr->hnm", table, where.to(table.dtype))


@ACCEPTED.add
def padded_and_unfolded(table, n, m):
    """A row of the bias is a window of one long row, of which the ends are repeated."""
    r = table.size(1) // 2
    row = torch.cat([table[:, :1].expand(-1, m), table, table[:, -1:].expand(-1, m)], 1)
    return torch.stack(
        [row[:, m + r + i - m + 1 : m + r + i + 1].flip(1) for i in range(m - n, m)], 1
    )


MISTAKES = Mistakes(Mistake(says, lambda t, n, m, to=to: bias(t, n, m, **to)) for says, to in (
    ("This is the code as found: the middle is not added, negative distances wrap around, queries start at 0.",
     {"start": lambda n, m: 0, "column": folded(lambda x, r: x.clamp(-r, r))}),
    ("The middle of the table is still not added, so negative distances wrap around.",
     {"column": folded(lambda x, r: x.clamp(-r, r))}),
    ("Queries still start at 0; the last n of m positions ask.", {"start": lambda n, m: 0}),
    ("Queries start one too late; the last of them stands at m - 1.", {"start": lambda n, m: m - n + 1}),
    ("Queries start one too early; the last of them stands at m - 1.", {"start": lambda n, m: m - n - 1}),
    ("The queries stand after all keys, at m to m + n - 1; they are the last n of them.", {"start": lambda n, m: m}),
    ("The distance is j - i; columns right of the middle look back, so it is i - j.",
     {"distance": lambda i, j: j - i}),
    ("The sign of the distance is lost; keys before and after the query have their own columns.",
     {"distance": lambda i, j: (i - j).abs()}),
    ("Keys that come after the query count as distance 0; they have columns of their own.",
     {"column": lambda x, r: x.clamp(0, r) + r}),
    ("Distances beyond the table wrap around; they share the last column of their side.",
     {"column": folded(lambda x, r: x + r)}),
    ("The middle of the table is off by one: distance 0 is column r, counted from 0.",
     {"column": lambda x, r: (x.clamp(-r, r) + r + 1).clamp(max=2 * r)}),
    ("Distances are clipped one too early; the outermost columns are for distance r.",
     {"column": lambda x, r: x.clamp(min(1 - r, 0), max(r - 1, 0)) + r}),
))  # fmt: skip
MISTAKES += [Mistake(says, lambda t, n, m, change=change: change(t, bias(t, n, m))) for says, change in (
    ("All heads get the row of head 0; each has its own.", lambda t, x: x[:1].expand_as(x)),
    ("The heads are averaged; each has its own row of the table.", lambda t, x: x.mean(0, keepdim=True).expand_as(x)),
    ("Only one head is returned; return (heads, n, m).", lambda t, x: x[0]),
    ("The heads stand last; return (heads, n, m).", lambda t, x: x.permute(1, 2, 0)),
    ("Queries and keys are exchanged; return (heads, n, m).", lambda t, x: x.mT),
    ("There is an axis for the batch; return (heads, n, m).", lambda t, x: x[None]),
    ("A causal mask is put in; the bias of all pairs is asked.",
     lambda t, x: x.masked_fill(torch.ones(x.shape[1:]).triu(1 + x.size(2) - x.size(1)).bool(), -torch.inf)),
    ("The softmax is taken; the bias is asked.", lambda t, x: x.softmax(-1)),
    ("No gradient flows back to the table: it is detached or copied out of torch.", lambda t, x: x.detach()),
    ("The table itself is changed.", lambda t, x: (x, t.data.mul_(2))[0]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="repair_positions",
    answer="repaired_bias",
    judge=Noticing(definition, cases, look=columns),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
