"""Convolved scores: what hides and is not minus infinity, a softmax that overflows, and slips known elsewhere."""

import math

import torch
import torch.nn.functional as F

from unseen import right, wrong


def later(n, m):
    return torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)


def slide(table, kernel):
    _, c_q, c_k = kernel.shape
    table = F.pad(table, (c_k // 2, c_k // 2, c_q - 1, 0))
    return F.conv2d(table, kernel[:, None], groups=len(kernel))


def convolved(fill=-math.inf, weigh=lambda s: s.softmax(-1), order=lambda kernel: kernel):
    def answer(scores, kernel):
        hidden = later(*scores.shape[2:])
        slid = slide(scores.masked_fill(hidden, 0.0), order(kernel))
        return weigh(slid.masked_fill(hidden, fill))

    return answer


def twice(fill=-math.inf, scale=None, weigh=lambda s: s.softmax(-1)):
    def answer(query, key, value, kernel, kernel_after):
        hidden = later(query.size(2), query.size(2))
        scores = query @ key.mT / (scale(query) if scale else math.sqrt(query.size(-1)))
        slid = slide(scores.masked_fill(hidden, 0.0), kernel).masked_fill(hidden, fill)
        weights = slide(weigh(slid), kernel_after).masked_fill(hidden, 0.0)
        return weights @ value, weights

    return answer


def naive(scores):
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


SLIPS = (
    naive,
    lambda s: F.one_hot(s.argmax(-1), s.size(-1)).float(),
    torch.sigmoid,
    lambda s: torch.where(s == -math.inf, s, 0 * s).softmax(-1),
)
for name, made in (("convolve_scores", convolved), ("repair_leak", twice)):
    right(name, made())
    for fill in (-1e3, -1e5, -1e7, -1e8):
        wrong(name, "Ordinary scores give the right result", made(fill=fill))
    for weigh in SLIPS:
        wrong(name, made(weigh=weigh))
wrong("convolve_scores", never="the future gets in")(convolved(order=lambda kernel: kernel.flip(0)))
wrong("repair_leak", twice(scale=lambda q: q.size(-1) ** -0.5))
wrong("repair_leak", lambda q, k, v, *kernels: twice(scale=lambda _: math.sqrt(v.size(-1)))(q, k, v, *kernels))  # fmt: skip
