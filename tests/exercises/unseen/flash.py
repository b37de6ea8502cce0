"""Answers to the exercises on FlashAttention that these do not list."""

import math

import torch

from unseen import right, wrong

INF = math.inf


def step(
    maximum, total, mixed, scores, value, visible, /, new=None, weigh=None, count=None, fresh=None
):
    scores = scores.masked_fill(~visible, -INF)
    now = new(maximum, scores) if new else torch.maximum(maximum, scores.amax(-1))
    shift = now.masked_fill(now == -INF, 0.0)
    weights, factor = torch.exp(scores - shift[..., None]), torch.exp(maximum - shift)
    weights = weigh(weights) if weigh else weights
    total = factor * total + (count(weights) if count else weights.sum(-1))
    return now, total, factor[..., None] * mixed + (fresh(value) if fresh else weights @ value)


right("online_step", lambda *given: step(*given))
for words, change in (
    ("Right in all calls: the maximum and the mixed values. Not right: the sum in all calls", {"count": lambda w: w.sum(-1) + 0.5}),
    ("Right in all calls: the maximum and the sum. Not right: the mixed values in all calls", {"fresh": lambda v: v.mean(2, True)}),
    ("Negative numbers became 0", {"new": lambda m, s: torch.maximum(m, s.amax(-1)).clamp(min=0)}),
):  # fmt: skip
    wrong("online_step", words, lambda *given, change=change: step(*given, **change))


def halves(out_a, lse_a, out_b, lse_b, /, finish=None, weigh=torch.exp, read=torch.logaddexp):
    lse = torch.logaddexp(lse_a, lse_b)
    safe = lse.masked_fill(lse == -INF, 0.0)
    parts = ((out_a, lse_a), (out_b, lse_b))
    kept = [
        torch.where(x[..., None] == -INF, 0.0, out) * weigh(x - safe)[..., None] for out, x in parts
    ]
    return finish(sum(kept), lse) if finish else (sum(kept), read(lse_a, lse_b))


right("merge_halves", halves)
for words, change in (
    ("outputs near 100,000", {"finish": lambda o, lse: (o.half().float(), lse)}),
    ("outputs near 100,000", {"finish": lambda o, lse: (o.clamp(-1e3, 1e3), lse)}),
    ("the lse in all calls", {"read": lambda a, b: torch.logaddexp(a, b) - math.log(2)}),
    ("Right in all calls: the lse. Not right: the output in all calls", {"weigh": torch.exp2}),
):  # fmt: skip
    wrong("merge_halves", words, lambda *given, change=change: halves(*given, **change))


def stream(query, key, value, size, start=-INF):
    maximum = torch.full((*query.shape[:3], 1), start)
    total, grown, mixed = (
        0 * maximum.clamp(min=0),
        0 * maximum.clamp(min=0),
        torch.zeros(*query.shape[:3], value.size(-1)),
    )
    for k, v in zip(key.split(size, 2), value.split(size, 2), strict=True):
        scores = query @ k.mT / query.size(-1) ** 0.5
        new = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        weights, factor = torch.exp(scores - new), torch.exp(maximum - new)
        total, mixed = factor * total + weights.sum(-1, keepdim=True), factor * mixed + weights @ v
        grown, maximum = grown + (new > maximum), new
    return mixed / total, grown[..., 0]


right("repair_rescaling", stream)
for start in (-1e4, -1e6, -1e8):
    wrong(
        "repair_rescaling",
        "scores below -2**27",
        lambda *given, start=start: stream(*given, start=start),
    )

N, M = 2048, 6144
EXACT = tuple(N * (192 + 129) + N // rows * M * 320 for rows in (128, 64))
right("numbers_moved", EXACT)
wrong("numbers_moved", "16 times and 32 times", (EXACT[0], EXACT[1] + 1))
wrong("numbers_moved", "as a tuple", EXACT[0])
wrong("numbers_moved", "as a tuple", (*EXACT, 0))


def backward(query, key, value, output, lse, grad_output, factors=(1, 1, 1)):
    scale = query.size(-1) ** -0.5
    p = torch.exp(query @ key.mT * scale - lse[..., None]).masked_fill(lse[..., None] == -INF, 0.0)
    ds = p * (grad_output @ value.mT - (grad_output * output).sum(-1, keepdim=True)) * scale
    return [
        f * x for f, x in zip(factors, (ds @ key, ds.mT @ query, p.mT @ grad_output), strict=True)
    ]


right("block_gradients", backward)
for words, factors in (("Dq: ", (-1, 1, 1)), ("dv in all calls, 0.5 times", (1, 1, 0.5))):
    wrong("block_gradients", words, lambda *g, factors=factors: backward(*g, factors=factors))
