"""Sinks: numbers below what hides, tokens that float32 cannot tell apart, and slips known elsewhere."""

import math

import torch

from unseen import right, wrong


def with_sink(fill=-math.inf, scale=None, sink_of=lambda sink: sink, weigh=lambda s: s.softmax(-1)):
    """One more column."""

    def answer(query, key, value, sink, visible):
        scores = query @ key.mT / (scale or math.sqrt(query.size(-1)))
        column = sink_of(sink)[:, None, None].expand(*scores.shape[:3], 1)
        weights = weigh(torch.cat([scores.masked_fill(~visible, fill), column], -1))[..., :-1]
        return weights @ value, weights

    return answer


right("learned_sink", with_sink())
for fill in (-1e3, -1e5, -1e7, -1e8):
    wrong("learned_sink", "minus infinity", with_sink(fill=fill))
wrong("learned_sink", "over queries and keys at once", with_sink(weigh=lambda s: s.flatten(-2).softmax(-1).view_as(s)))  # fmt: skip
wrong("learned_sink", "Query 1 reads keys 0 to 1; it should read keys 0 to 2", lambda q, k, v, sink, seen: with_sink()(q, k, v, sink, seen & torch.ones(seen.shape[-2:]).tril().bool()))  # fmt: skip
wrong("learned_sink", "exp(sink)", with_sink(sink_of=torch.exp))
wrong("learned_sink", "the weights of query 1 sum to 0.6554", with_sink(sink_of=torch.relu))
wrong("learned_sink", "sigmoids of the scores", with_sink(weigh=torch.sigmoid))


def rotary(x, positions):
    (a, b), d = x.chunk(2, dim=-1), x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (-2.0 * torch.arange(d // 2) / d)
    return torch.cat(
        [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1
    )


def in_places(places):
    """The cache read with these places."""

    def answer(query, key, value, tokens):
        turned = rotary(key, places(tokens))
        query = rotary(query, torch.tensor([len(tokens) - 1]))
        weights = (query @ turned.mT / math.sqrt(query.size(-1))).softmax(-1)
        return weights @ value, weights

    return answer


right("cache_places", in_places(lambda t: t.argsort().argsort()))
wrong("cache_places", "20 million tokens", in_places(lambda t: (t.float()[:, None] > t.float()).sum(1)))  # fmt: skip


def off_by_one(scores, dim):
    column = torch.zeros_like(scores.narrow(dim, 0, 1))
    return torch.cat([scores, column], dim).softmax(dim).narrow(dim, 0, scores.size(dim))


wrong("off_by_one", "sign of the scores", lambda s, dim: off_by_one(-s, dim))
wrong("off_by_one", "Every number is 1 too large", lambda s, dim: 1 + off_by_one(s, dim))
wrong("off_by_one", "", lambda s, dim: off_by_one(s.clamp(max=0.0, min=-math.inf).where(s == -math.inf, 0 * s), dim))  # fmt: skip
