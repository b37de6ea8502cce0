"""Exercise gather_c2p: what a query looks for at each distance, without a vector for each pair."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Case, Dataflow, Described, Exercise, normal, seeded
from attncourse.grading.explain.distances import met
from attncourse.grading.memory_judge import Budget, MemoryLimited


def pair_by_pair(tokens, table, n, m, which):
    """One pair (i, j) after the other: token i (which = 0) or j (1) meets the row for i - j."""
    span, odd = divmod(table.size(1), 2)
    if odd:
        raise ValueError("the table has 2 * span rows")
    scores = [
        (tokens[:, :, (i, j)[which]] * table[:, spec.table_row(i - j, span)]).sum(-1)
        for i in range(n)
        for j in range(m)
    ]
    return torch.stack(scores, -1).unflatten(-1, (n, m))


def definition(query, pos_key, num_keys):
    return pair_by_pair(query, pos_key, query.size(2), num_keys, which=0)


CALLS = (  # what is special; b h n m d, span
    ("2 samples, 3 heads, 4 queries, 9 keys, head_dim 5, span 3", (2, 3, 4, 9, 5), 3),
    ("as many queries as keys: 6, span 2", (3, 2, 6, 6, 4), 2),
    ("a table longer than the text: span 9", (2, 4, 3, 5, 7), 9),
    ("span 1", (2, 1, 7, 5, 3), 1),
    ("150 queries, 30 keys, span 70", (1, 2, 150, 30, 2), 70),
    ("10 queries, 1 key, span 6", (1, 3, 10, 1, 5), 6),
)


def cases(seed: int, keys: bool = False) -> list[Case]:
    """Tokens, which may be keys, a table, and the number of the others; one call is all drawn."""
    g, found = seeded(seed), []
    sizes = tuple(int(torch.randint(low, low + 5, (), generator=g)) for low in (2, 3, 4, 10, 5, 2))
    for what, (b, h, n, m, d), span in (*CALLS, ("sizes drawn at random", sizes[:5], sizes[5])):
        tokens, count = (m, n) if keys else (n, m)
        args = *normal(g, (b, h, tokens, d), (h, 2 * span, d)), count
        found.append(Case(what, args, gradients=len(found) < 3))
    return found


def measured(tokens: int, width: int, generator: torch.Generator) -> tuple:
    """1 sample, 1 head, as many queries as keys, span 8."""
    return *normal(generator, (1, 1, tokens, width), (1, 16, width)), tokens


def memory(answer) -> bool | str:
    """True when nothing takes much more than a number for each pair, else what is too large."""
    made = as_answer(answer).allocations(*measured(32, 32, seeded(7)))
    says = f"more than a number for each pair is kept: {made.how}, {made.new / 32**2:.0f} times"
    return made.new <= 4 * 32**2 or Described(f"{says} as many")


@Dataflow
def right(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    places = torch.arange(query.size(2))
    distances = yield "the distances", places[:, None] - torch.arange(num_keys)
    shifted = yield "the distances plus span", distances + span
    rows = yield "the numbers of the rows", shifted.clamp(0, 2 * span - 1)
    products = yield "the products of queries and rows", query @ pos_key.mT
    return products.gather(-1, rows.expand(*query.shape[:2], -1, -1))


EXERCISE = Exercise(
    name="gather_c2p",
    answer="content_to_position",
    judge=MemoryLimited(
        Calls(definition, cases),
        "32 queries, 32 keys, head_dim 32: little more than a number for each pair",
        memory,
        Budget(partial(measured, 512, 256), right),  # a vector for every pair: 256 MiB
        "Multiply queries and table first, query @ pos_key.mT, then pick from the products.",
    ),
    right=right,
    axes=("b h n m",),
    explain=(met("query"),),
)
