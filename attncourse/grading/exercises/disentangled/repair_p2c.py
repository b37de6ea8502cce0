"""Exercise repair_p2c: keys meet the table of positions, and their products are picked by an index that belongs to queries."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.disentangled._rows import Rows, Term, drawn_cases, pick
from attncourse.grading.exercises.disentangled._slips import slips


def definition(key, pos_query, num_queries):
    """One pair after the other."""
    (b, h, m, _), span = key.shape, pos_query.size(1) // 2
    scores = [
        (key[:, :, j] * pos_query[:, spec.table_row(i - j, span)]).sum(-1)
        for i in range(num_queries)
        for j in range(m)
    ]
    return torch.stack(scores, -1).view(b, h, num_queries, m)


RIGHT = Term(keys=True)
ACCEPTED = Accepted(turned_twice=RIGHT)


def index_of(i, j, table):
    span = table.size(1) // 2
    return (i - j + span).clamp(0, 2 * span - 1)


@ACCEPTED.add
def rows_are_keys_from_the_start(key, pos_query, num_queries):
    j, i = torch.arange(key.size(2)).view(-1, 1), torch.arange(num_queries)
    index = index_of(i, j, pos_query).repeat(*key.shape[:2], 1, 1)
    return torch.gather(key @ pos_query.mT, 3, index).transpose(2, 3)


@ACCEPTED.add
def gathered_along_the_rows_of_the_table(key, pos_query, num_queries):
    """The table meets the keys: (b, h, rows, m), and gather picks rows."""
    index = index_of(torch.arange(num_queries)[:, None], torch.arange(key.size(2)), pos_query)
    every = torch.einsum("hrd,bhjd->bhrj", pos_query, key)
    return every.gather(2, index[None, None].expand(*key.shape[:2], -1, -1))


@ACCEPTED.add
def indexed_by_key_and_row(key, pos_query, num_queries):
    i, j = torch.arange(num_queries)[:, None], torch.arange(key.size(2))
    return (key @ pos_query.mT)[:, :, j, index_of(i, j, pos_query)]


@ACCEPTED.add
def a_vector_for_every_pair(key, pos_query, num_queries):
    i, j = torch.arange(num_queries)[:, None], torch.arange(key.size(2))
    return torch.einsum("bhjd,hijd->bhij", key, pos_query[:, index_of(i, j, pos_query)])


@ACCEPTED.add
def key_by_key(key, pos_query, num_queries):
    columns = []
    for j, one in enumerate(key.unbind(2)):
        at = index_of(torch.arange(num_queries), torch.tensor(j), pos_query)
        columns.append((one[:, :, None] * pos_query[:, at]).sum(-1))
    return torch.stack(columns, -1)


@ACCEPTED.add
def as_in_the_released_code(key, pos_query, num_queries):
    """The distance is turned, the index is that of keys, and the result is turned at the end."""
    span, (b, h, m, _) = pos_query.size(1) // 2, key.shape
    distance = torch.arange(m)[:, None] - torch.arange(num_queries)
    index = torch.clamp(-distance + span, 0, 2 * span - 1)
    every = torch.bmm(key.flatten(0, 1), pos_query.repeat(b, 1, 1).transpose(1, 2))
    found = torch.gather(every, -1, index.expand(b * h, m, num_queries)).transpose(-1, -2)
    return found.reshape(b, h, num_queries, m)


def cut_and_picked(x, t, index):
    """gather with the index of queries, of as many rows as there are."""
    return pick(x @ t.mT, index[: x.size(2)])


ONE = "Rows of the products are keys, so the index must be turned before, index.mT, and the result afterwards"
MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in (
    (f"This is the code as found, or does the same: row i of the result is about key i, not key j. {ONE}.",
     {"scores": lambda x, t, index: pick(x @ t.mT, index)}),
    (f"This is the code as found, cut so that it does not raise: row i of the result is about key i, not key j. {ONE}.",
     {"scores": cut_and_picked}),
    (f"The result is turned, but the index is not: on a square that reads the row of j - i. {ONE}.",
     {"scores": lambda x, t, index: pick(x @ t.mT, index).mT}),
    ("The index is reshaped to (m, n), which tears its rows apart; transpose it.",
     {"scores": lambda x, t, index: pick(x @ t.mT, index.reshape(index.mT.shape)).mT}),
    ("The result is reshaped to (n, m), which tears its rows apart; transpose it.",
     {"scores": lambda x, t, index: pick(x @ t.mT, index.mT).reshape(*x.shape[:2], *index.shape)}),
    ("The products are turned, and gather then picks keys instead of rows of the table: along dim=-2 it would pick rows.",
     {"scores": lambda x, t, index: pick((x @ t.mT).mT, index.clamp(max=x.size(2) - 1)[: t.size(1)])}),
    ("Key 0 is multiplied for all keys; each answers for itself.",
     {"scores": lambda x, t, index: pick((x @ t.mT)[:, :, :1].expand(-1, -1, x.size(2), -1), index.mT).mT}),
    ("Both half-repairs are added up, that of i - j and that of j - i; only the row of i - j is read.",
     {"scores": lambda x, t, index: pick(x @ t.mT, index.mT).mT + pick(x @ t.mT, (t.size(1) - index).clamp(0, t.size(1) - 1).mT).mT}),
    ("The first columns of the products are returned; each pair picks the row of its distance.",
     {"scores": lambda x, t, index: (x @ t.mT)[..., : index.size(0)].mT}),
    ("These are the rows of the table, one number for each pair and feature; a score is their product with the key, added up.",
     {"scores": lambda x, t, index: t[:, index]}),
    ("The products are not added up over head_dim; a score is one number.",
     {"scores": lambda x, t, index: x[:, :, None] * t[:, index]}),
    ("The softmax is taken over the rows of the table; the scores are asked.",
     {"scores": lambda x, t, index: pick((x @ t.mT).softmax(-1), index.mT).mT}),
    ("The index is returned; return the scores that it picks.", {"scores": lambda x, t, index: index}),
    ("The index is returned; return the scores that it picks.", {"scores": lambda x, t, index: index.expand(*x.shape[:2], -1, -1)}),
)] + [*slips(RIGHT)])  # fmt: skip

EXERCISE = Exercise(
    name="repair_p2c",
    answer="position_to_content",
    judge=Rows(definition, partial(drawn_cases, keys=True), keys=True),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
