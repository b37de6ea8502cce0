"""Linear attention: as many queries as keys and no mask, totals below 1, and what may not be said of the features."""

import torch

from unseen import right, wrong


def features(x):
    return torch.exp(x.clamp(max=0)) + x.clamp(min=0)


def state_step(least):
    """Divided by no less than this."""

    def answer(query, key, value, state, total):
        q, k = features(query), features(key)
        state, total = state + k[..., :, None] * value[..., None, :], total + k
        sums = (q[..., None, :] @ state)[..., 0, :]
        return sums / (q * total).sum(-1, keepdim=True).clamp(min=least), state, total

    return answer


right("causal_state", state_step(0.0))
wrong("causal_state", "Wrong: output", state_step(1.0))


def normalized(query, key, value, is_causal, least=0.0):
    q, k = features(query), features(key)
    table = q @ k.mT
    table = table.tril() if is_causal else table
    return table @ value / table.sum(-1, keepdim=True).clamp(min=least)


right("repair_normalizer", normalized)


@wrong("repair_normalizer", "6 queries, 6 keys")
def causal_where_it_is_square(query, key, value, is_causal):
    return normalized(query, key, value, query.size(2) == key.size(2))


@wrong("repair_normalizer", "6 queries, 6 keys")
def at_least_1(query, key, value, is_causal):
    return normalized(query, key, value, is_causal, 0.0 if is_causal else 1.0)


@wrong("chunked", "should give", never="features")
def halves_the_state(query, key, value, size):
    value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    state, out = 0.0 * key[:, :, :1].mT @ value[:, :, :1], []
    parts = (x.split(size, 2) for x in (features(query), features(key), value))
    for q, k, v in zip(*parts, strict=True):
        out.append(q @ state + (q @ k.mT).tril() @ v)
        state = (state + k.mT @ v) / 2
    read = torch.cat(out, 2)
    return read[..., :-1] / read[..., -1:]
