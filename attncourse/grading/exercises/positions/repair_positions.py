"""Exercise repair_positions: a bias by distance that starts anew behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, normal, seeded
from attncourse.grading.explain.places import apart


def definition(table, n, m):
    """What `spec.relative_bias` adds to a score of 0; query i stands at m - n + i."""
    rule, zero = spec.relative_bias(table), torch.zeros((), dtype=table.dtype)
    found = [
        rule(zero, 0, h, m - n + i, j)
        for h in range(len(table))
        for i in range(n)
        for j in range(m)
    ]
    return torch.stack(found).view(len(table), n, m)


CALLS = (  # heads, reach, n, m
    ("3 heads, reach 4, 4 queries, 4 keys", 3, 4, 4, 4),
    ("2 heads, reach 2, 6 queries, 6 keys: further than the table", 2, 2, 6, 6),
    ("4 heads, reach 3, 2 queries at the end of 7 keys", 4, 3, 2, 7),
    ("1 new query behind 10 keys, reach 5", 3, 5, 1, 11),
    ("reach 1, 4 queries, 9 keys", 5, 1, 4, 9),
    ("reach 0: one number for all", 2, 0, 2, 3),
    ("1 head, 1 query, 1 key", 1, 2, 1, 1),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (*normal(g, (h, 2 * r + 1)), n, m)) for what, h, r, n, m in CALLS]


DISTANCES, NEAR, COLUMNS = (
    "the distances", "the distances, at most the reach of the table", "the columns of the table"
)  # fmt: skip


@Dataflow
def right(table, n, m):
    r = table.size(1) // 2
    places = yield "the positions of the queries", m - n + torch.arange(n)
    distances = yield DISTANCES, places[:, None] - torch.arange(m)
    near = yield NEAR, distances.clamp(-r, r)
    columns = yield COLUMNS, near + r
    return table[:, columns]


def columns(asked):
    """For which distance and head is the number that the first wrong pair gets?"""
    call = asked.shaped[0]
    table, n, m = call.case.args
    h, i, j = apart(call.expected, call.seen).nonzero()[0].tolist()
    got = call.seen[h, i, j].double()
    found = (table.double() == got).nonzero().tolist()
    what = (
        f"In the call '{call.label}' head {h}, query {i} (at position {m - n + i}) and key {j} get"
    )
    if not found:
        return f"{what} {float(got):.4g}, which does not stand in the table."
    (head, column), reach, distance = found[0], table.size(1) // 2, m - n + i - j
    of = "" if head == h else f" of head {head}"
    last = max(-reach, min(reach, distance))
    far = f", and beyond {reach} the last column counts: that for {last}" * (last != distance)
    return (
        f"{what} the number for distance {column - reach}{of}; their distance is {distance}{far}."
    )


def as_found(table, n, m):
    r = table.size(1) // 2
    apart = torch.arange(n)[:, None] - torch.arange(m)
    return table[:, apart.clamp(-r, r)]


EXERCISE = Exercise(
    name="repair_positions",
    answer="repaired_bias",
    judge=Calls(definition, cases),
    right=right,
    axes=("h n m",),
    explain=(columns,),
    measures=("gradients",),
    ideas=[
        Mistake("The middle of the table is still not added, so negative distances wrap around.",
                lambda t, n, m: as_found(t, m, m)[:, m - n :]),
        Mistake("Queries still start at 0; the last n of m positions ask.",
                lambda t, n, m: right(t, m, m)[:, :n]),
    ],
)  # fmt: skip
