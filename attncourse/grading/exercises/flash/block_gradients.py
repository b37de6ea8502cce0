"""Exercise block_gradients: the gradients from one block of keys, computed again from the lse."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded


def definition(query, key, value, output, lse, grad_output):
    """Pair by pair: every key of the block hands each query, and is handed by it, its part."""
    found = tuple(map(torch.zeros_like, (query, key, value)))
    scale = query.size(-1) ** -0.5
    for b, h, i in torch.cartesian_prod(*map(torch.arange, lse.shape)).tolist():
        for j in range(key.size(2) if lse[b, h, i] > -math.inf else 0):
            q, k, v, d_o = query[b, h, i], key[b, h, j], value[b, h, j], grad_output[b, h, i]
            weight = torch.exp(scale * (q * k).sum() - lse[b, h, i])
            of_score = weight * ((d_o * v).sum() - (d_o * output[b, h, i]).sum())
            found[0][b, h, i] += scale * of_score * k
            found[1][b, h, j] += scale * of_score * q
            found[2][b, h, j] += weight * d_o
    return found


CALLS = (  # special about the call, b h n d e, keys of the block, other keys, how loud
    ("2 samples, 3 heads, 4 queries, 5 of 8 keys, values 7 wide", (2, 3, 4, 6, 7), 5, 3, 1),
    ("all keys in one block", (2, 2, 3, 4, 6), 5, 0, 1),
    ("queries that read nothing", (2, 3, 5, 3, 4), 4, 2, 1),
    ("large scores", (1, 2, 4, 5, 3), 6, 5, 200),
    ("log-sum-exps of about -1500", (1, 2, 4, 4, 3), 3, 2, 1),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Output and log-sum-exp are those over all keys, of which the answer gets a block."""
    g, found = seeded(seed), []
    for what, (b, h, n, d, e), m, others, loud in CALLS:
        shapes = (b, h, n, d), (b, h, m + others, d), (b, h, m + others, e), (b, h, n, e)
        query, key, value, grad_output = normal(g, *shapes)
        query = loud * query
        if "-1500" in what:  # the scores differ as before, by the other features
            query[..., 0], key[..., 0] = -60.0, 50.0
            grad_output *= 0.01  # so is what float32 rounds
        scores = (query.double() @ key.double().mT) / d**0.5
        lse, output = scores.logsumexp(-1).float(), (scores.softmax(-1) @ value.double()).float()
        if "nothing" in what:
            for at in (..., 1), (0, 0, 2):
                lse[at], output[(*at, slice(None))] = -math.inf, 0.0
        block = key[:, :, :m].clone(), value[:, :, :m].clone()
        found.append(Case(what, (query, *block, output, lse, grad_output)))
    return found


@Dataflow
def right(q, k, v, o, lse, d_o):
    root, nothing = q.size(-1) ** 0.5, (lse == -math.inf)[..., None]
    scores = yield "the scores, divided by sqrt(head_dim)", q @ k.mT / root
    p = yield "the weights exp(score - lse)", torch.exp(scores - lse[..., None])
    p = yield "the weights, 0 where a query reads nothing", p.masked_fill(nothing, 0)
    d_p = yield "the gradients of the weights", d_o @ v.mT
    total = yield "the sums D of grad_output * output", (d_o * o).sum(-1)
    inner = yield "the differences dp - D", d_p - total[..., None]
    d_s = yield "the gradients of the scores, p (dp - D)", p * inner
    d_s = yield "the gradients of the scores, divided by sqrt(head_dim)", d_s / root
    return d_s @ k, d_s.mT @ q, p.mT @ d_o


EXERCISE = Exercise(
    name="block_gradients",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n d", "b h m d", "b h m e"),
    results=("dq", "dk", "dv"),
)
