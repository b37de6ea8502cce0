"""Exercise repair_positions: a bias by distance that starts anew behind a cache."""

from itertools import product

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.explain.places import apart


def definition(table, n, m):
    """What `spec.relative_bias` adds to a score of 0; query i stands at m - n + i."""
    if n > m or table.size(1) % 2 == 0:
        raise ValueError("the queries are the last of the keys, and a table has 2 * reach + 1 rows")
    rule, zero = spec.relative_bias(table), torch.zeros((), dtype=table.dtype)
    places = product(range(len(table)), range(m - n, m), range(m))
    return torch.stack([rule(zero, 0, *at) for at in places]).view(len(table), n, m)


CALLS = (  # heads, reach, n, m
    ("3 heads, reach 4, 4 queries, 4 keys", 3, 4, 4, 4),
    ("2 heads, reach 2, 2 queries at the end of 300 keys", 2, 2, 2, 300),
    ("2 heads, reach 2, 6 queries, 6 keys: further than the table", 2, 2, 6, 6),
    ("4 heads, reach 3, 2 queries at the end of 7 keys", 4, 3, 2, 7),
    ("1 new query behind 10 keys, reach 5", 3, 5, 1, 11),
    ("reach 1, 4 queries, 9 keys", 5, 1, 4, 9),
    ("reach 0: one number for all", 2, 0, 2, 3),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (*normal(g, (h, 2 * r + 1)), n, m)) for what, h, r, n, m in CALLS]


@Dataflow
def right(table, n, m):
    r = table.size(1) // 2
    places = yield "the positions of the queries", m - n + torch.arange(n)
    distances = yield "the distances", places[:, None] - torch.arange(m)
    near = yield "the distances, at most the reach of the table", distances.clamp(-r, r)
    columns = yield "the columns of the table", near + r
    return table[:, columns]


def columns(asked: Asked) -> str:
    """Which entry of the table does the first wrong pair get, and which should it get?"""
    call = asked.shaped[0]
    table, n, m = call.case.args
    h, i, j = apart(call.expected, call.seen).nonzero()[0].tolist()
    reach, distance = table.size(1) // 2, m - n + i - j
    found = (table.double() == call.seen[h, i, j].double()).nonzero().tolist()
    gets = f"table{found[0]}" if found else "a number that does not stand in the table"
    return (
        f"In the call '{call.label}' head {h} gives query {i} and key {j} {gets}. Their positions "
        f"are {m - n + i} and {j}, their distance is {distance}, so that they should get "
        f"table{[h, max(-reach, min(reach, distance)) + reach]}."
    )


EXERCISE = Exercise(
    name="repair_positions",
    answer="repaired_bias",
    judge=Calls(definition, cases),
    right=right,
    axes=("h n m",),
    explain=(columns,),
)
