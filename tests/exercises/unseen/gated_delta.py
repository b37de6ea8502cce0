"""Gates and the delta rule: numbers that are small and not 0, clamps, large states, and gradients that are cut in part."""

import math

import torch

from unseen import right, wrong


def same(x):
    return x


def table(fill=-math.inf, logs=same, running=same, sums=same, finish=same):
    """Sums between two tokens, what comes later hidden, exp."""

    def answer(log_decay):
        n, total = log_decay.size(-1), running(logs(log_decay).cumsum(-1))
        between = sums(total[..., :, None] - total[..., None, :])
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return finish(between.masked_fill(later, fill).exp())

    return answer


right("decay_mask", table())
right("decay_mask", table(fill=-1e3))  # float32 has no number for exp(-1e3) but 0
right("decay_mask", table(logs=torch.Tensor.double))
for x in (-10.0, -40.0, -80.0):
    wrong("decay_mask", "later", "0", table(fill=x))
for x in (-3.0, -10.0, -20.0, -50.0):
    wrong("decay_mask", "number", table(logs=lambda g, x=x: g.clamp(min=x)) if x == -3 else table(running=lambda t, x=x: t.clamp(min=x)))  # fmt: skip
wrong("decay_mask", "the logarithms of the numbers", table(logs=lambda g: g.clamp(min=-20.0)))
wrong("decay_mask", "the logarithms of the numbers", table(sums=lambda s: s.clamp(-30.0, 30.0)))
for x in (1e-6, 1e-9):
    wrong("decay_mask", "later tokens count exactly 0", table(finish=lambda t, x=x: t.clamp(min=x)))  # fmt: skip
for x in (1e-3, 1e-6):
    wrong(
        "decay_mask",
        "the logarithms of the numbers",
        table(finish=lambda t, x=x: t.where(t > x, 0.0)),
    )
wrong("decay_mask", "only this one does not: only token 2 of 9", table(finish=lambda t: t.triu(-5)))
wrong("decay_mask", "rounded", table(logs=lambda g: g.bfloat16().float()), never="results are right")  # fmt: skip


@wrong("decay_mask", "NaN", "Hide them first")
def exp_first_in_float64(log_decay):
    total = log_decay.double().cumsum(-1)
    return (total[..., :, None] - total[..., None, :]).exp().tril().float()


def step(keep=torch.exp, change=same, beta=same, finish=lambda *both: both, key=same):
    """Fade, ask, write, read."""

    def answer(state, query, address, value, strength, log_decay):
        faded, k = keep(log_decay)[..., None, None] * state, key(address)
        said = (k[..., None, :] @ faded)[..., 0, :]
        new = faded + k[..., None] * (beta(strength)[..., None] * change(value - said))[..., None, :]  # fmt: skip
        return finish((query[..., None, :] @ new)[..., 0, :] / math.sqrt(query.size(-1)), new)

    return answer


right("delta_step", step())
for x in (-3.0, -10.0, -40.0):
    wrong("delta_step", "everything is forgotten" , step(lambda g, x=x: g.clamp(min=x).exp()))  # fmt: skip
for x in (1.0, 10.0, 50.0):
    wrong(
        "delta_step",
        "answers of the faded state to the key are among",
        step(change=lambda y, x=x: y.clamp(-x, x)),
    )
wrong("delta_step", "the new state is 0.627 times state", step(beta=torch.exp))
wrong("delta_step", "Right in all calls: the output", step(finish=lambda o, s: (o, s.round(decimals=2))), never="results are right")  # fmt: skip
wrong("delta_step", "no gradient flows back to value", step(change=torch.detach))
wrong("delta_step", "axes of size 1 are missing", step(finish=lambda o, s: (o.squeeze(0), s)))
wrong("delta_step", "answers of the faded state to the key", step(key=torch.relu))


@wrong("delta_step", "changed in place: beta", never="gradient")
def takes_the_strength(state, query, key, value, beta, log_decay):
    found = step()(state, query, key, value, beta, log_decay)
    beta.data.mul_(0)
    return found


def chunk(fill=-math.inf, logs=same, writes=same, width=lambda q, v: q.size(-1), finish=lambda *both: both):  # fmt: skip
    """The table of a chunk, the old state, and the new one."""

    def answer(query, key, value, log_decay, state):
        n, total = query.size(2), logs(log_decay).cumsum(-1)
        between = (total[..., :, None] - total[..., None, :]).masked_fill(torch.ones(n, n).triu(1).bool(), fill)  # fmt: skip
        query = query / math.sqrt(width(query, value))
        read = (query * total.exp()[..., None]) @ state + (query @ key.mT * between.exp()) @ value
        left = writes((total[..., -1:] - total).exp()[..., None])
        return finish(read, total[..., -1].exp()[..., None, None] * state + (key * left).mT @ value)

    return answer


right("repair_decay", chunk())
for x in (-10.0, -20.0, -50.0):
    wrong(
        "repair_decay",
        "4 tokens" if x == -10 else "very large",
        chunk(fill=x),
        never="Is something rounded",
    )
    wrong("repair_decay", "very strong decay", chunk(logs=lambda g, x=x: g.clamp(min=x)))
wrong("repair_decay", "Right in all calls: the new state", chunk(width=lambda q, v: v.size(-1)))
wrong("repair_decay", "gradient", chunk(writes=torch.detach))
wrong("repair_decay", "axes of size 1 are missing", chunk(finish=lambda o, s: (o.squeeze(1), s)))


@wrong("repair_decay", "NaN or infinite numbers here: very strong decay")
def factors_in_float64(query, key, value, log_decay, state):
    total = log_decay.double().cumsum(-1)[..., None]
    q, k, v = query * total.exp() / math.sqrt(query.size(-1)), key * (-total).exp(), value.double()
    return q @ state.double() + (q @ k.mT).tril() @ v, total[:, :, -1:].exp() * (state + k.mT @ v)


right("overwrite", [10, 2, 3, 11, 5, torch.tensor(21.8)])
wrong("overwrite", "Number 6", "all digits count", (10, 2, 3, 11, 5, 22))
wrong("overwrite", "Number 1", "too large", "Number 3", (20, 2, 3.5, 11, 5, 21.8))
wrong("overwrite", "NaN", (10, 2, 3, 11, 5, math.nan))
wrong("overwrite", "without quotes", "10")
