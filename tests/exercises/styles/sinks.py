"""Right answers to the exercises on attention sinks."""

import math

import torch
import torch.nn.functional as F

from styles import style


def join(old, new):
    return torch.cat([old, new], dim=2)


def rotary(x, positions):
    frequency = 1.0 / 10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    angle = torch.outer(positions.float(), frequency).repeat(1, 2)
    return x * angle.cos() + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * angle.sin()


def zeros(scores, dim):
    """One more score a row, all 0."""
    return torch.zeros_like(scores.narrow(dim, 0, 1))


def scores_of(query, key, visible):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(key.size(-1))
    return scores.masked_fill(visible.logical_not(), float("-inf"))


@style("evict")
def slices(keys, values, new_keys, new_values, num_sinks, window):
    out = []
    for old, new in ((keys, new_keys), (values, new_values)):
        every = torch.cat((old, new), -2)
        if every.shape[-2] > num_sinks + window:
            every = torch.cat((every[..., :num_sinks, :], every[..., -window:, :]), -2)
        out.append(every)
    return out


@style("evict")
def one_after_the_other(keys, values, new_keys, new_values, num_sinks, window):
    for k, v in zip(new_keys.split(1, dim=2), new_values.split(1, dim=2), strict=True):
        keys, values = join(keys, k), join(values, v)
        if keys.size(2) > num_sinks + window:
            keys, values = (
                join(x[:, :, :num_sinks], x[:, :, num_sinks + 1 :]) for x in (keys, values)
            )
    return keys, values


@style("evict")
def by_a_bool_mask(keys, values, new_keys, new_values, num_sinks, window):
    end = keys.size(2) + new_keys.size(2)
    at = torch.arange(end)
    kept = (at < num_sinks) | (at >= end - window)
    return join(keys, new_keys)[:, :, kept], join(values, new_values)[:, :, kept]


@style("evict")
def index_select(keys, values, new_keys, new_values, num_sinks, window):
    end = keys.size(2) + new_keys.size(2)
    start = max(num_sinks, end - window)
    kept = torch.tensor([*range(min(num_sinks, end)), *range(start, end)])
    pairs = (keys, new_keys), (values, new_values)
    return tuple(torch.cat(x, 2).index_select(2, kept) for x in pairs)


@style("cache_places")
def in_order_and_back(query, key, value, tokens):
    order = tokens.argsort()
    at = torch.arange(len(tokens))
    key = rotary(key[:, :, order], at)
    scores = rotary(query, at[-1:]) @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores, -1)
    back = torch.empty_like(weights)
    back[..., order] = weights
    return weights @ value[:, :, order], back


@style("cache_places")
def by_the_distance(query, key, value, tokens):
    """A list of Python: the query is turned by the distance, and the keys are not turned."""
    places = [sorted(tokens.tolist()).index(t) for t in tokens.tolist()]
    asks = [rotary(query, torch.tensor([len(places) - 1 - p])) for p in places]
    scores = (torch.cat(asks, 2) * key).sum(-1)[:, :, None] / query.size(-1) ** 0.5
    weights = scores.softmax(-1)
    return [weights @ value, weights]


@style("cache_places")
def argsort_twice(query, key, value, tokens):
    places = tokens.argsort().argsort() + 50  # all shifted alike
    query, key = rotary(query, places.max()[None]), rotary(key, places)
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, -1)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@style("off_by_one")
def a_zero_behind(scores, dim):
    weights = torch.cat([scores, zeros(scores, dim)], dim).softmax(dim)
    return weights.narrow(dim, 0, scores.size(dim))


@style("off_by_one")
def a_zero_in_front(scores, dim):
    rows = F.pad(scores.movedim(dim, -1), (1, 0))
    return F.softmax(rows, -1)[..., 1:].movedim(-1, dim)


@style("off_by_one")
def log_sum_exp(scores, dim):
    every = torch.cat([scores, zeros(scores, dim)], dim)
    return torch.exp(scores - torch.logsumexp(every, dim, keepdim=True))


@style("off_by_one")
def sigmoid_of_lse(scores, dim):
    """The softmax, times the share that the scores have against the 1."""
    scores = scores.masked_fill((scores == -math.inf).all(dim, keepdim=True), -1e30)
    lse = scores.logsumexp(dim, keepdim=True)
    return scores.softmax(dim) * torch.sigmoid(lse)


@style("learned_sink")
def sigmoid_of_the_log_sum(query, key, value, sink, visible):
    scores = scores_of(query, key, visible)
    lse = torch.logsumexp(scores.masked_fill(~visible.any(-1)[:, None], -1e30), -1)
    read = torch.sigmoid(lse - sink[:, None])[..., None]
    weights = scores.masked_fill(~visible.any(-1)[:, None], 0.0).softmax(-1) * read
    return weights @ value, weights


@style("learned_sink")
def exponentials_by_hand(query, key, value, sink, visible):
    scores, sink = scores_of(query, key, visible), sink.view(1, -1, 1, 1)
    top = torch.maximum(scores.max(-1, keepdim=True).values, sink)
    e = torch.exp(scores - top)
    weights = e / (e.sum(-1, keepdim=True) + torch.exp(sink - top))
    return torch.einsum("bhij,bhje->bhie", weights, value), weights


@style("learned_sink")
def a_key_whose_value_is_zero(query, key, value, sink, visible):
    b, h, n, _ = query.shape
    scores = torch.cat(
        [sink.reshape(1, h, 1, 1).repeat(b, 1, n, 1), scores_of(query, key, visible)], 3
    )
    every = scores.softmax(3)
    padded = torch.cat([value.new_zeros(b, h, 1, value.size(3)), value], 2)
    return [every @ padded, every[..., 1:]]


@style("learned_sink")
def head_by_head(query, key, value, sink, visible):
    found = []
    for h in range(query.size(1)):
        scores = scores_of(query[:, h : h + 1], key[:, h : h + 1], visible)
        log = torch.logaddexp(scores.logsumexp(-1), sink[h]).unsqueeze(-1)
        w = torch.exp(scores - log)
        found.append((w @ value[:, h : h + 1], w))
    return tuple(torch.cat(x, 1) for x in zip(*found, strict=True))
