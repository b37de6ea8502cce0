"""Linear attention: as many queries as keys and no mask, totals below 1, and what may not be said of the features."""

import torch
import torch.nn.functional as F

from unseen import right, wrong


def features(x):
    return torch.exp(x.clamp(max=0)) + x.clamp(min=0)


def state_step(least=0.0, made=features, finish=lambda *three: three):
    """Divided by no less than this."""

    def answer(query, key, value, state, total):
        q, k = made(query), made(key)
        state, total = state + k[..., :, None] * value[..., None, :], total + k
        read = (q[..., None, :] @ state)[..., 0, :] / (q * total).sum(-1, keepdim=True).clamp(
            min=least
        )
        return finish(read, state, total)

    return answer


FEATURES = (
    lambda x: features(x).clamp(max=10.0),
    lambda x: features(x).clamp(min=0.1),
    lambda x: features(x).clamp(min=1e-3),
    lambda x: features(x).clamp(min=3e-3),
    lambda x: features(x) + 0.01,
    lambda x: features(x).clamp(max=100.0),
    lambda x: F.silu(x) + 1,
    lambda x: F.leaky_relu(x) + 1,
    lambda x: features(x / x.size(-1) ** 0.5),
)
right("causal_state", state_step())
right("causal_state", state_step(made=lambda x: F.elu(x) + 1))
for most in (100.0, 1e4):
    wrong("causal_state", state_step(finish=lambda o, s, t, x=most: (o, s.clamp(-x, x), t)))  # fmt: skip
right("causal_state", state_step(1e-6))  # as small as float32 needs it
for least in (1.0, 0.1, 0.01, 1e-3):
    wrong("causal_state", state_step(least))
for made in FEATURES:
    wrong("causal_state", state_step(made=made))
wrong("causal_state", state_step(made=lambda x: F.celu(x, 2.0) + 1), never="The output of a call is right")  # fmt: skip
wrong("causal_state", state_step(made=lambda x: features(x).clamp(max=1e4)))  # fmt: skip
wrong("causal_state", "axes of size 1", state_step(finish=lambda o, s, t: (o.squeeze(-1), s, t)))
wrong("causal_state", "gradient of key is not", state_step(finish=lambda o, s, t: (o, s.detach(), t)))  # fmt: skip


def normalized(query, key, value, is_causal, least=0.0, made=features):
    q, k = made(query), made(key)
    table = q @ k.mT
    table = table.tril() if is_causal else table
    return table @ value / table.sum(-1, keepdim=True).clamp(min=least)


right("repair_normalizer", normalized)
right("repair_normalizer", lambda *x: normalized(*x, made=lambda x: F.elu(x) + 1))
for made in FEATURES:
    wrong("repair_normalizer", lambda *x, made=made: normalized(*x, made=made))
for least in (0.1, 0.01, 1e-3):
    wrong("repair_normalizer", lambda *x, least=least: normalized(*x, least))


@wrong("repair_normalizer", "6 queries, 6 keys")
def causal_where_it_is_square(query, key, value, is_causal):
    return normalized(query, key, value, query.size(2) == key.size(2))


@wrong("repair_normalizer", "6 queries, 6 keys")
def at_least_1(query, key, value, is_causal):
    return normalized(query, key, value, is_causal, 0.0 if is_causal else 1.0)


def in_chunks(keep=torch.add, made=features, size_of=lambda size: size, divide=lambda read: read[..., :-1] / read[..., -1:]):  # fmt: skip
    """A state, and a table for each chunk."""

    def answer(query, key, value, size):
        value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
        state, out = 0.0 * key[:, :, :1].mT @ value[:, :, :1], []
        parts = (x.split(size_of(size), 2) for x in (made(query), made(key), value))
        for q, k, v in zip(*parts, strict=True):
            out.append(divide(q @ state + (q @ k.mT).tril() @ v))
            state = keep(state, k.mT @ v)
        return torch.cat(out, 2)

    return answer


for name in ("chunked", "repair_global"):
    right(name, in_chunks())
    wrong(name, in_chunks(lambda old, new: 0.9 * old + new))
    wrong(name, in_chunks(lambda old, new: 0.999 * old + new))
    wrong(name, in_chunks(lambda old, new: (old + new) / 2), never="features")
    wrong(name, in_chunks(lambda old, new: (old + new).clamp(-10, 10)))
    wrong(name, "gradient of key is not", in_chunks(lambda old, new: old.detach() + new))
    for made in FEATURES:
        wrong(name, in_chunks(made=made))
    for least in (0.1, 0.01, 1e-3):
        wrong(name, in_chunks(divide=lambda r, x=least: r[..., :-1] / r[..., -1:].clamp(min=x)))  # fmt: skip
    for most in (100.0, 1e4):
        wrong(name, in_chunks(lambda old, new, x=most: (old + new).clamp(-x, x)))
    right(name, in_chunks(divide=lambda r: r[..., :-1] / (r[..., -1:] + 1e-6)))
    right(name, in_chunks(made=lambda x: F.elu(x) + 1))  # which keeps three digits of 1e-4
wrong("chunked", "a state is written for each token", in_chunks(size_of=lambda size: 1))
wrong("chunked", "a table of n x n numbers", in_chunks(size_of=lambda size: 10**6))
right("repair_global", in_chunks(size_of=lambda size: 1))


def piece(made=features, old=lambda state: state, divide=lambda read: read[..., :-1] / read[..., -1:], finish=lambda *both: both):  # fmt: skip
    """What was read before, and this piece."""

    def answer(query, key, value, state):
        q, k, v = made(query), made(key), torch.cat([value, torch.ones_like(value[..., :1])], -1)
        read, new = (q @ k.mT).tril() @ v, k.mT @ v
        if state is not None:
            read, new = read + q @ old(state), state + new
        return finish(divide(read), new)

    return answer


right("continue_state", piece())
for made in FEATURES:
    wrong("continue_state", piece(made))
wrong("continue_state", piece(divide=lambda r: r[..., :-1] / r[..., -1:].clamp(min=0.01)))  # fmt: skip
wrong("continue_state", piece(divide=lambda r: r[..., :-1] / r[..., -1:].clamp(min=1e-3)))  # fmt: skip
for most in (100.0, 1e4):
    wrong("continue_state", piece(old=lambda x, most=most: x.clamp(-most, most)))
    wrong("continue_state", piece(finish=lambda o, s, x=most: (o, s.clamp(-x, x))))  # fmt: skip
right("continue_state", piece(divide=lambda r: r[..., :-1] / (r[..., -1:] + 1e-6)))
right("continue_state", piece(lambda x: F.elu(x) + 1))
wrong("continue_state", "gradient of state is not", piece(old=torch.detach))
wrong("continue_state", "gradient of", "is not", piece(finish=lambda o, s: (o, s.detach())))
right("positive_features", (-1, -2, 60, 3, 18.33))
wrong("positive_features", "Number 5", "this is close", (-1, -2, 60, 3, 18.3))
for strange, says in (("none", "the text 'none'"), (None, "None"), ((2, 1), "several"), (True, "True")):  # fmt: skip
    wrong("positive_features", f"number 4 of them is {says}", (-1, -2, 60, strange, 18.33))
wrong("positive_features", "the sum without its sign", (1, -2, 60, 3, 18.33))
wrong("positive_features", "the plain mean of the values", (-1, -2, 20, 3, 18.33))
wrong(
    "positive_features", "Number 3", "Number 5", "did not go through relu", (-1, -2, 18.33, 3, 60)
)
wrong("positive_features", "got 6 numbers", (-1, -2, 60, 3, 18.33, 0))
wrong("positive_features", "Number 2", "not yet divided", (-1, 2, 60, 3, 18.33))
