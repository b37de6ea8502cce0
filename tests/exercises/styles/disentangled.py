"""Disentangled attention: right answers in other styles."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from styles import style


def index_of(i, j, table):
    """The row of the table for each pair of a query i and a key j."""
    span = table.size(1) // 2
    return (i - j + span).clamp(0, 2 * span - 1)


def near(x, other, tol):
    return torch.isclose(x, other, rtol=0, atol=tol)


@style("term_scale")
def one_if_after_the_other(c2c, c2p, p2c, head_dim):
    scores, count = 0, 0
    if c2c is not None:
        scores, count = scores + c2c, count + 1
    if c2p is not None:
        scores, count = scores + c2p, count + 1
    if p2c is not None:
        scores, count = scores + p2c, count + 1
    return torch.nn.functional.softmax(scores / (head_dim * count) ** 0.5, dim=-1)


@style("term_scale")
def stacked(c2c, c2p, p2c, head_dim):
    terms = torch.stack([x for x in (c2c, c2p, p2c) if isinstance(x, torch.Tensor)])
    return (terms.sum(0) / math.sqrt(head_dim) / math.sqrt(len(terms))).softmax(dim=3)


@style("term_scale")
def exponentials_by_hand(c2c, c2p, p2c, head_dim):
    terms = [x for x in (c2c, c2p, p2c) if x is not None]
    scores = torch.stack(terms, -1).mean(-1) * math.sqrt(len(terms) / head_dim)
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


@style("term_scale")
def products_of_exponentials(c2c, c2p, p2c, head_dim):
    logs = [x.double() for x in (c2c, c2p, p2c) if x is not None]
    scale = (head_dim * (3 - [c2c is None, c2p is None, p2c is None].count(True))) ** -0.5
    total = sum(scale * x for x in logs)
    return (total - total.logsumexp(-1, keepdim=True)).exp()


@style("term_scale")
def zeros_for_none(c2c, c2p, p2c, head_dim):
    found = next(x for x in (c2c, c2p, p2c) if x is not None)
    on = sum(x is not None for x in (c2c, c2p, p2c))
    a, b, c = (torch.zeros_like(found) if x is None else x for x in (c2c, c2p, p2c))
    return ((a + b + c) * (1 / (head_dim * on)) ** 0.5).softmax(-1)


@style("gather_c2p")
def take_along_dim(query, pos_key, num_keys):
    span = pos_key.shape[1] // 2
    index = torch.arange(query.shape[2]).view(-1, 1) - torch.arange(num_keys) + span
    every = torch.einsum("bhid,hrd->bhir", query, pos_key)
    return torch.take_along_dim(every, index.clip(0, 2 * span - 1)[None, None], dim=3)


@style("gather_c2p")
def indexed_by_two_tables(query, pos_key, num_keys):
    i, j, span = torch.arange(query.size(2))[:, None], torch.arange(num_keys), pos_key.size(1) // 2
    every = torch.matmul(query, pos_key.transpose(-1, -2))
    return every[:, :, i, torch.clamp(i - j, -span, span - 1) + span]


@style("gather_c2p")
def query_by_query(query, pos_key, num_keys):
    """The rows of one query at a time."""
    span, rows = pos_key.size(1) // 2, []
    for i in range(query.size(2)):
        at = [min(max(i - j, -span), span - 1) + span for j in range(num_keys)]
        rows.append((query[:, :, i, None] * pos_key[:, at]).sum(-1))
    return torch.stack(rows, dim=2)


@style("gather_c2p")
def pair_by_pair(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    every = query @ pos_key.mT
    out = torch.zeros(*query.shape[:3], num_keys)
    for i in range(query.size(2)):
        for j in range(num_keys):
            out[..., i, j] = every[..., i, max(0, min(2 * span - 1, i - j + span))]
    return out


@style("gather_c2p")
def a_window_of_a_longer_row(query, pos_key, num_keys):
    """The products of distances n - 1 to 1 - m; row i is m of them, and those of the next row begin one earlier."""
    span, n = pos_key.size(1) // 2, query.size(2)
    far = torch.arange(n - 1, -num_keys, -1).clamp(-span, span - 1) + span
    every = (query @ pos_key.mT)[..., far]  # (b, h, n, n + m - 1)
    (b, h, n, _), length = every.shape, every.size(-1)
    steps = (h * n * length, n * length, length - 1, 1)
    return every.contiguous().as_strided((b, h, n, num_keys), steps, n - 1)


@style("repair_p2c")
def rows_are_keys_from_the_start(key, pos_query, num_queries):
    j, i = torch.arange(key.size(2)).view(-1, 1), torch.arange(num_queries)
    index = index_of(i, j, pos_query).repeat(*key.shape[:2], 1, 1)
    return torch.gather(key @ pos_query.mT, 3, index).transpose(2, 3)


@style("repair_p2c")
def gathered_along_the_rows_of_the_table(key, pos_query, num_queries):
    """The table meets the keys: (b, h, rows, m), and gather picks rows."""
    index = index_of(torch.arange(num_queries)[:, None], torch.arange(key.size(2)), pos_query)
    every = torch.einsum("hrd,bhjd->bhrj", pos_query, key)
    return every.gather(2, index[None, None].expand(*key.shape[:2], -1, -1))


@style("repair_p2c")
def indexed_by_key_and_row(key, pos_query, num_queries):
    i, j = torch.arange(num_queries)[:, None], torch.arange(key.size(2))
    return (key @ pos_query.mT)[:, :, j, index_of(i, j, pos_query)]


@style("repair_p2c")
def a_vector_for_every_pair(key, pos_query, num_queries):
    i, j = torch.arange(num_queries)[:, None], torch.arange(key.size(2))
    return torch.einsum("bhjd,hijd->bhij", key, pos_query[:, index_of(i, j, pos_query)])


@style("repair_p2c")
def key_by_key(key, pos_query, num_queries):
    columns = []
    for j, one in enumerate(key.unbind(2)):
        at = index_of(torch.arange(num_queries), torch.tensor(j), pos_query)
        columns.append((one[:, :, None] * pos_query[:, at]).sum(-1))
    return torch.stack(columns, -1)


@style("repair_p2c")
def as_in_the_released_code(key, pos_query, num_queries):
    """The distance is turned, the index is that of keys, and the result is turned at the end."""
    span, (b, h, m, _) = pos_query.size(1) // 2, key.shape
    distance = torch.arange(m)[:, None] - torch.arange(num_queries)
    index = torch.clamp(-distance + span, 0, 2 * span - 1)
    every = torch.bmm(key.flatten(0, 1), pos_query.repeat(b, 1, 1).transpose(1, 2))
    found = torch.gather(every, -1, index.expand(b * h, m, num_queries)).transpose(-1, -2)
    return found.reshape(b, h, num_queries, m)


@style("log_bucket")
def loops(distance, buckets, furthest):
    def one(x):
        half, size = buckets // 2, abs(x)
        if size > half:
            far = math.log(size / half) / math.log((furthest - 1) / half)
            size = min(buckets - 1, half + math.ceil(far * (half - 1)))
        return size if x > 0 else -size

    return torch.tensor([one(x) for x in distance.flatten().tolist()]).reshape(distance.shape)


@style("log_bucket")
def as_in_the_published_code(distance, buckets, furthest):
    sign, mid = torch.sign(distance), buckets // 2
    x = torch.where((distance < mid) & (distance > -mid), mid - 1, distance.abs())
    log = torch.ceil(torch.log(x / mid) / math.log((furthest - 1) / mid) * (mid - 1)) + mid
    return torch.where(x <= mid, distance, log * sign).long().clamp(1 - buckets, buckets - 1)


@style("log_bucket")
def edges_counted(distance, buckets, furthest):
    half = buckets // 2
    factor = ((furthest - 1) / half) ** (1 / (half - 1))
    edges = torch.cat([torch.arange(half), half * factor ** torch.arange(half - 1).double()])
    return torch.bucketize(distance.abs().double(), edges) * distance.sign()


@style("log_bucket")
def numpy_in_base_2(distance, buckets, furthest):
    half, d = buckets // 2, distance.numpy()
    x = np.clip(np.abs(d), half, furthest - 1)
    far = half + np.ceil(np.log2(x / half) / np.log2((furthest - 1) / half) * (half - 1))
    return torch.from_numpy(np.where(np.abs(d) <= half, d, np.copysign(far, d))).long()


@style("log_bucket")
def one_table_of_all_sizes(distance, buckets, furthest):
    """Each far bucket ends where the next one begins."""
    half = buckets // 2
    ends = [half * ((furthest - 1) / half) ** (k / (half - 1)) for k in range(half)]
    table = torch.arange(furthest)
    for bucket, (low, high) in enumerate(pairwise(ends), start=half + 1):
        table[math.floor(low + 1e-6) + 1 : math.floor(high + 1e-6) + 1] = bucket
    found = table[distance.abs().clamp(max=furthest - 1)]
    return found.where(distance >= 0, found.neg())


@style("toeplitz_test")
def neighbours_with_a_small_tolerance(bias):
    """Not 1e-4: forty steps may add up."""
    return near(bias[:, 1:, 1:], bias[:, :-1, :-1], 1.2e-5).flatten(1).all(1)


@style("toeplitz_test")
def made_again_of_the_first_row_and_column(bias):
    n, m = bias.shape[1:]
    numbers = torch.cat([bias[:, 1:, 0].flip(1), bias[:, 0]], dim=1)
    again = numbers[:, n - 1 + torch.arange(m) - torch.arange(n)[:, None]]
    return ((again == bias) | ((again - bias).abs() < 1e-4)).all(-1).all(-1)


@style("toeplitz_test")
def loops_of_numpy(bias):
    _, n, m = bias.shape
    tables = np.nan_to_num(bias.numpy(), neginf=-1e9)
    return np.array([all(np.ptp(t.diagonal(d)) < 5e-4 for d in range(-n + 1, m)) for t in tables])


@style("toeplitz_test")
def largest_and_smallest_by_scatter(bias):
    h, n, m = bias.shape
    index = (torch.arange(m) - torch.arange(n)[:, None] + n - 1).flatten().expand(h, -1)
    ends = [
        torch.zeros(h, n + m - 1).scatter_reduce(1, index, bias.flatten(1), how, include_self=False)
        for how in ("amin", "amax")
    ]
    return [
        torch.equal(a, b) or (b - a).nan_to_num(0, posinf=9).max().item() < 1e-4
        for a, b in zip(*ends, strict=True)
    ]


@style("toeplitz_test")
def deviations_of_whole_diagonals(bias):
    finite = torch.where(bias.isinf(), -1e6, bias.double())
    n, m = bias.shape[1:]
    spread = [finite.diagonal(k, 1, 2).std(-1, correction=0) for k in range(1 - n, m)]
    return torch.stack(spread).amax(0) < 1e-4


@style("toeplitz_test")
def distances_in_a_dictionary(bias):
    """Ones and zeros, entry by entry."""
    found = []
    for table in bias:
        first = {}
        found.append(int(all(
            (x == (y := first.setdefault(i - j, x))) or abs(x - y) < 5e-5
            for i, row in enumerate(table.tolist()) for j, x in enumerate(row)
        )))  # fmt: skip
    return torch.tensor(found)


@style("toeplitz_test")
def not_a_number_is_no_difference(bias):
    def told(table):
        diagonals = [table.diagonal(k) for k in range(1 - table.size(0), table.size(1))]
        return not any(((x - x[0]).abs() > 3e-4).any() for x in diagonals)

    return tuple(map(told, bias))


CHANGES = ["nothing", "nothing", "nothing", "both", "both", "nothing", "both", "output", "both"]
SLOPES = [-0.36, -0.24, 0.6, 0.0]
style("beta", [*CHANGES, -0.36, -0.24, 0.6, 0], name="all in a row")
style("beta", (CHANGES, torch.tensor(SLOPES)), name="a tensor of numbers")
style("beta", [tuple(map(str.capitalize, CHANGES)), np.array(SLOPES)], name="numpy and capitals")
style(
    "beta",
    (dict(zip("abcdefghi", CHANGES, strict=True)), {"0": -0.36, "1": -0.24, "2": 0.6, "beta": 0.0}),
    name="dictionaries",
)
style("beta", (CHANGES, [torch.tensor(-0.36), -0.24, 0.6001, -1e-17]), name="rounded")


def distance(n):
    """i - j for all pairs."""
    return torch.arange(n)[:, None] - torch.arange(n)


class Copier(nn.Module):
    """One attention layer over one-hot tokens; scores are made of tokens and of learned numbers."""

    def __init__(self, scores, numbers):
        super().__init__()
        self.scores, self.numbers = scores, nn.Parameter(numbers.clone())
        self.say, self.token = nn.Parameter(9 * torch.eye(16)), nn.Parameter(torch.eye(16))

    def forward(self, tokens):
        weights = self.scores(tokens, self.numbers).softmax(-1)
        return weights @ self.token[tokens] @ self.say


def by_table(tokens, table):
    """Queries and a table of positions: the query's product with the row of the distance."""
    index = distance(tokens.size(1)).clamp(-8, 8) + 8
    return table[tokens].gather(2, index.expand(len(tokens), -1, -1))


def by_hill(tokens, where):
    """The nearer a distance is to the one that is learned, the more."""
    return -where[1].square() * (distance(tokens.size(1)) - where[0]).square()


def by_waves(tokens, turn):
    """Sines and cosines of the places, those of the query turned by learned angles."""
    angle = torch.arange(tokens.size(1))[:, None] * SPEED
    query = torch.cat([(angle + turn).cos(), (angle + turn).sin()], -1)
    return 3 * query @ torch.cat([angle.cos(), angle.sin()], -1).T


def causal(tokens, numbers):
    far = distance(tokens.size(1))
    return numbers[far.clamp(-8, 8) + 8].masked_fill(far < 0, -torch.inf)


class Convolution(nn.Module):
    """A convolution that is four wide is relative, too."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Conv1d(16, 16, 4, bias=False)
        self.kernel.weight.data = 9 * torch.eye(16)[..., None] * torch.tensor([1.0, 0, 0, 0])

    def forward(self, tokens):
        hot = nn.functional.one_hot(tokens, 16).float()
        return self.kernel(nn.functional.pad(hot.mT, (3, 0))).mT


SPEED, AT_3 = 0.05 + torch.arange(24) / 8, 20.0 * (torch.arange(-8, 9) == 3)
style("longer", Copier(by_table, AT_3.expand(16, -1)), name="a table that the query consults")
style("longer", Copier(by_waves, -3 * SPEED), name="sines turned by learned angles")
style("longer", Copier(by_hill, torch.tensor([3.0, 4.0])), name="a hill around a learned distance")
style("longer", Convolution(), name="a convolution")
style("longer", Copier(causal, AT_3).double(), name="causal, in double precision")
