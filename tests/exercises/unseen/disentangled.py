"""Disentangled attention: numbers taken for minus infinity, half precision, limits on scores, squares, gradients cut."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from unseen import right, wrong


def near(x, y, most=1e-4):
    return (x == y) | ((x - y).abs() < most)


def relative(table=lambda t: t, agree=near, enough=lambda same: bool(same.all()), offsets=lambda n, m: range(1 - n, m)):  # fmt: skip
    """Every diagonal against its first number."""

    def answer(bias):
        found = []
        for one in map(table, bias):
            diagonals = (one.diagonal(k) for k in offsets(*one.shape))
            found.append(all(enough(agree(x, x[0])) for x in diagonals))
        return found

    return answer


right("toeplitz_test", relative())
right("toeplitz_test", relative(agree=lambda x, y: near(x, y, 9e-4)))
right("toeplitz_test", lambda bias: torch.tensor(relative()(bias)))
for fill in (-1.0, -10.0, -100.0, -1e3, -1e4):
    wrong("toeplitz_test", f"but once {fill:g} and not minus infinity", relative(lambda t, x=fill: t.masked_fill(t == -math.inf, x)))  # fmt: skip
wrong("toeplitz_test", "but for its signs", relative(torch.abs))
wrong("toeplitz_test", "at numbers of about -60", relative(torch.exp))
wrong(
    "toeplitz_test", "one number for each query", relative(lambda t: t - t.mean(-1, keepdim=True))
)
wrong("toeplitz_test", "relative but for rounding", relative(lambda t: t.round(decimals=3)))
wrong("toeplitz_test", "but more passes", "the end of a long diagonal", relative(enough=lambda same: same.float().mean() >= 0.9))  # fmt: skip
wrong("toeplitz_test", "a number far above", relative(offsets=lambda n, m: range(1 - n, m, 2)))


def rows(n, m, span):
    return (torch.arange(n)[:, None] - torch.arange(m) + span).clamp(0, 2 * span - 1)


def to_position(row_of=rows, finish=lambda s: s):
    """Each query with each row, of which those of its distances are picked."""

    def answer(query, pos_key, num_keys):
        index = row_of(query.size(2), num_keys, pos_key.size(1) // 2)
        every = query @ pos_key.mT
        return finish(every.gather(-1, index.expand(*query.shape[:2], -1, -1)))

    return answer


def to_content(row_of=rows, key=lambda k: k):
    """The same for keys, turned."""

    def answer(keys, pos_query, num_queries):
        index = row_of(num_queries, keys.size(2), pos_query.size(1) // 2).mT
        every = key(keys) @ pos_query.mT
        return every.gather(-1, index.expand(*keys.shape[:2], -1, -1)).mT

    return answer


def behind(n, m, span):
    """The queries are the last ones where there are fewer."""
    return rows(n + max(m - n, 0), m, span)[max(m - n, 0) :]


for name, made in (("gather_c2p", to_position), ("repair_p2c", to_content)):
    right(name, made())
    wrong(name, "rows are wrong", "distance 0", "should have row 3", made(behind))
    wrong(name, "-span and less are wrong", made(lambda n, m, span: rows(n, m, span).clamp(min=1)))
    wrong(name, "should have row", made(lambda n, m, s: ((torch.arange(n)[:, None] - torch.arange(m)) // 2 + s).clamp(0, 2 * s - 1)))  # fmt: skip
wrong("gather_c2p", "axes of size 1 are missing", to_position(finish=lambda s: s.squeeze(1)))
wrong("gather_c2p", "three digits", to_position(finish=torch.Tensor.half))
wrong("repair_p2c", "gradient", "key", to_content(key=torch.detach))


def weights(softmax=lambda s: s.softmax(-1), scale=lambda d, n: math.sqrt(d * n), third=lambda x: x, finish=lambda w: w):  # fmt: skip
    """The sum of what is there, over a root."""

    def answer(c2c, c2p, p2c, head_dim):
        terms = [x for x in (c2c, c2p, None if p2c is None else third(p2c)) if x is not None]
        return finish(softmax(sum(terms) / scale(head_dim, len(terms))))

    return answer


right("term_scale", weights())
for most in (1e3, 1e4, 1e6):
    wrong("term_scale", "large ones do not", weights(lambda s, x=most: s.clamp(-x, x).softmax(-1)))
wrong("term_scale", "precision", weights(lambda s: s.half().softmax(-1).float()))
wrong("term_scale", "should sum to 1", weights(lambda s: F.pad(s, (0, 1)).softmax(-1)[..., :-1]))
wrong("term_scale", "Negative numbers among", weights(lambda s: s.relu().softmax(-1)))
wrong("term_scale", weights(lambda s: (30 * (s / 30).tanh()).softmax(-1)))
wrong("term_scale", "0.25 times c2c", weights(scale=lambda d, n: round(math.sqrt(d * n))))
wrong("term_scale", "c2c switched off", weights(third=lambda x: x.mT if x.size(2) == x.size(3) else x))  # fmt: skip
wrong("term_scale", "No gradient flows through the numbers of p2c", weights(third=torch.detach))
wrong("term_scale", "float16", weights(finish=torch.Tensor.half), never="not their softmax")


def bucket(up=torch.ceil, most=lambda b: b - 1, last=lambda f: f - 1):
    def answer(distance, buckets, furthest):
        half, x = buckets // 2, distance.abs()
        share = torch.log(x.clamp(min=half) / half) / math.log(last(furthest) / half)
        far = (half + up((half - 1) * share)).clamp(max=most(buckets)).long()
        return torch.where(x <= half, x, far) * distance.sign()

    return answer


right("log_bucket", bucket())
right("log_bucket", lambda *x: bucket()(*x).int())
wrong("log_bucket", "rounded down", bucket(torch.floor))
wrong("log_bucket", "furthest - 1 and more", bucket(most=lambda b: b))
wrong("log_bucket", "taken as it is", bucket(last=lambda f: f))

WORDS = [*["nothing"] * 3, "both", "both", "nothing", "both", "output", "both"]
right("beta", (WORDS, [-0.36, -0.24, 0.6, 0]))
wrong("beta", "Not all signs are right", (WORDS, [0.36, 0.24, 0.6, 0]))
wrong("beta", "0.5 times", (WORDS, [-0.18, -0.12, 0.3, 0]))
wrong("beta", "two decimals", (WORDS, [-0.4, -0.2, 0.6, 0]))


class Distances(nn.Module):
    """A number for each row of distances, which prefers distance 3."""

    def __init__(self, row=lambda d: d.clamp(-8, 8) + 8, finish=lambda m, t: m(t)):
        super().__init__()
        self.row, self.finish = row, finish
        self.numbers = nn.Parameter(20.0 * (torch.arange(17) == row(torch.tensor(3))))
        self.say = nn.Parameter(9 * torch.eye(16))

    def copied(self, tokens):
        i = torch.arange(tokens.size(1))
        return self.numbers[self.row(i[:, None] - i)].softmax(-1) @ self.say[tokens]

    def forward(self, tokens):
        return self.finish(self.copied, tokens)


class Rolled(nn.Module):
    """A shift around the end knows the order, and nothing was learned."""

    def forward(self, x):
        return x.roll(3, 1) @ GUESSES


GUESSES = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))
right("longer", Distances())
right("longer", Distances(finish=lambda m, t: m(t).softmax(-1)))
wrong("longer", "2 places back like", "a row of its own", Distances(lambda d: (d // 2).clamp(-8, 8) + 8))  # fmt: skip
wrong("longer", "14 places ahead like the one", "a row of its own", Distances(lambda d: d % 17))
wrong("longer", "9 places back", "table ends too early", Distances(lambda d: d.clamp(-3, 3) + 3))
wrong("longer", "has a length of its own", Distances(finish=lambda m, t: m(t[:, :16])))
wrong("longer", "never right: [16, 17, 18]", Distances(finish=lambda m, t: torch.cat([m(x) for x in t.split(16, 1)], 1)))  # fmt: skip
wrong("longer", "a ndarray of shape", Distances(finish=lambda m, t: m(t).detach().numpy()))
wrong("longer", "the others in its batch", Distances(finish=lambda m, t: m(t) - 9 * m(t).mean(0)))
wrong("longer", "differs from one call", Distances(finish=lambda m, t: F.dropout(m(t), 0.5)))  # fmt: skip
wrong("longer", "untrained", nn.Sequential(nn.Embedding(16, 16), Rolled()), never="the places")
