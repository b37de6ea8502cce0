"""Exercise gather_c2p: what a query looks for in which distance, without a vector for every pair."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.disentangled._rows import Rows, Term, drawn_cases, pick
from attncourse.grading.exercises.disentangled._slips import slips
from attncourse.grading.inputs import normal
from attncourse.grading.memory_judge import Budget, MemoryLimited


def definition(query, pos_key, num_keys):
    """One pair after the other."""
    (b, h, n, _), span = query.shape, pos_key.size(1) // 2
    scores = [
        (query[:, :, i] * pos_key[:, spec.table_row(i - j, span)]).sum(-1)
        for i in range(n)
        for j in range(num_keys)
    ]
    return torch.stack(scores, -1).view(b, h, n, num_keys)


def measured(tokens: int, width: int, generator: torch.Generator) -> tuple:
    """1 sample, 1 head, as many queries as keys, span 8."""
    return *normal(generator, (1, 1, tokens, width), (1, 16, width)), tokens


def memory(answer) -> bool | str:
    """True when nothing takes much more than one number for each pair, else how large it is, and what made it."""
    args = measured(32, 32, torch.Generator().manual_seed(7))
    made = as_answer(answer).allocations(*args)
    times = made.new / 32**2
    return times <= 4 or Described(
        f"more than a number for each pair is kept: {made.how}, {times:.0f} times as many"
    )


RIGHT = Term()
ACCEPTED = Accepted(gathered=RIGHT)


@ACCEPTED.add
def take_along_dim(query, pos_key, num_keys):
    span = pos_key.shape[1] // 2
    index = torch.arange(query.shape[2]).view(-1, 1) - torch.arange(num_keys) + span
    every = torch.einsum("bhid,hrd->bhir", query, pos_key)
    return torch.take_along_dim(every, index.clip(0, 2 * span - 1)[None, None], dim=3)


@ACCEPTED.add
def indexed_by_two_tables(query, pos_key, num_keys):
    i, j, span = torch.arange(query.size(2))[:, None], torch.arange(num_keys), pos_key.size(1) // 2
    every = torch.matmul(query, pos_key.transpose(-1, -2))
    return every[:, :, i, torch.clamp(i - j, -span, span - 1) + span]


@ACCEPTED.add
def query_by_query(query, pos_key, num_keys):
    """The rows of one query at a time."""
    span, rows = pos_key.size(1) // 2, []
    for i in range(query.size(2)):
        at = [min(max(i - j, -span), span - 1) + span for j in range(num_keys)]
        rows.append((query[:, :, i, None] * pos_key[:, at]).sum(-1))
    return torch.stack(rows, dim=2)


@ACCEPTED.add
def pair_by_pair(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    every = query @ pos_key.mT
    out = torch.zeros(*query.shape[:3], num_keys)
    for i in range(query.size(2)):
        for j in range(num_keys):
            out[..., i, j] = every[..., i, max(0, min(2 * span - 1, i - j + span))]
    return out


@ACCEPTED.add
def a_window_of_a_longer_row(query, pos_key, num_keys):
    """The products of distances n - 1 to 1 - m; row i is m of them, and those of the next row begin one earlier."""
    span, n = pos_key.size(1) // 2, query.size(2)
    far = torch.arange(n - 1, -num_keys, -1).clamp(-span, span - 1) + span
    every = (query @ pos_key.mT)[..., far]  # (b, h, n, n + m - 1)
    (b, h, n, _), length = every.shape, every.size(-1)
    steps = (h * n * length, n * length, length - 1, 1)
    return every.contiguous().as_strided((b, h, n, num_keys), steps, n - 1)


def rows_of_the_index(x, table, index):
    """The rows of the scores are chosen, not the columns."""
    return (x @ table.mT).gather(2, index.clamp(max=x.size(2) - 1).expand(*x.shape[:2], -1, -1))


MISTAKES = Mistakes(slips(RIGHT))
MISTAKES += [RIGHT.but(says, **steps) for says, steps in (
    ("The results are right, but for every pair of query and key a whole row of numbers is made: a vector of the table, or zeros with "
     "a single one. Multiply the queries with the table first, query @ pos_key.mT, and pick from the products.",
     {"scores": lambda x, t, index: torch.einsum("bhid,hijd->bhij", x, t[:, index])}),
    ("gather runs along the queries; it picks columns of the products, dim=-1.", {"scores": rows_of_the_index}),
    ("The index is transposed: row i of it belongs to query i.", {"scores": lambda x, t, index: pick(x @ t.mT, index.mT)}),
    ("The index is transposed, and its rows are cut to the number of queries: row i of it belongs to query i.",
     {"scores": lambda x, t, index: (x @ t.mT).gather(-1, index.mT[: x.size(2)].expand(*x.shape[:2], -1, -1))}),
    ("The first columns of the products are returned, one for each key; each pair picks the row of its distance.",
     {"scores": lambda x, t, index: (x @ t.mT)[..., : index.size(1)]}),
    ("The columns of query 0 are picked for all queries; each has distances of its own.",
     {"scores": lambda x, t, index: (x @ t.mT)[..., index[0]]}),
    ("The products of query 0 are used for all queries; each asks for itself.",
     {"scores": lambda x, t, index: pick((x @ t.mT)[:, :, :1].expand(-1, -1, x.size(2), -1), index)}),
    ("The rows of the table are added up over head_dim, and the query is not asked; multiply with it.",
     {"scores": lambda x, t, index: pick((0 * x + 1) @ t.mT, index)}),
    ("These are the rows of the table, one number for each pair and feature; a score is their product with the query, added up.",
     {"scores": lambda x, t, index: t[:, index]}),
    ("The products are not added up over head_dim; a score is one number.",
     {"scores": lambda x, t, index: x[:, :, :, None] * t[:, index]}),
    ("The softmax is taken over the rows of the table; the scores are asked.",
     {"scores": lambda x, t, index: pick((x @ t.mT).softmax(-1), index)}),
    ("The index is returned; return the scores that it picks.", {"scores": lambda x, t, index: index}),
    ("The index is returned; return the scores that it picks.", {"scores": lambda x, t, index: index.expand(*x.shape[:2], -1, -1)}),
    ("One score too many is added: the queries meet each other, too.", {"scores": lambda x, t, index: pick(x @ t.mT, index) + (x * x).sum(-1, keepdim=True)}),
)]  # fmt: skip

EXERCISE = Exercise(
    name="gather_c2p",
    answer="content_to_position",
    judge=MemoryLimited(
        Rows(definition, partial(drawn_cases, keys=False)),
        "32 queries, 32 keys, head_dim 32: little more than a number for each pair",
        memory,
        Budget(partial(measured, 512, 256), RIGHT),  # a vector for every pair: 256 MiB
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
