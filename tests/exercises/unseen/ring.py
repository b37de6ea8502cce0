"""Answers to the exercises on kernels and on ring attention that these do not list."""

import math

import torch

from unseen import right, wrong


def merge(outputs, lses, shares=None, clean=None, finish=None):
    weights = shares(lses) if shares else lses.softmax(0).nan_to_num(0.0)
    kept = torch.where(lses[..., None] == -math.inf, 0.0, outputs)
    output, lse = (weights[..., None] * (clean(kept) if clean else kept)).sum(0), lses.logsumexp(0)
    return finish(output, lse) if finish else (output, lse)


right("merge_parts", merge)
for words, change in (
    ("outputs near 100,000", {"finish": lambda o, lse: (o.half().float(), lse)}),
    ("outputs near 100,000", {"clean": lambda o: o.clamp(-1e3, 1e3)}),
    ("Right in all calls: the lse. Not right: the output in 8 of", {"shares": lambda x: (x / 2).softmax(0).nan_to_num(0.0)}),
    ("Right in all calls: the output. Not right: the lse in all calls", {"finish": lambda o, lse: (o, lse * 2)}),
    ("stand in the opposite order of parts", {"clean": lambda o: o.flip(0)}),
):  # fmt: skip
    wrong("merge_parts", words, lambda o, x, change=change: merge(o, x, **change))


def tiles(n, m, block_m, block_n, offset, whole=None, skip=None, finish=tuple):
    found = [0, 0, 0]
    for i in range(0, n, block_m):
        last = min(i + block_m, n) - 1
        for j in range(0, m, block_n):
            full = whole or (
                lambda i, j: i + block_m <= n and j + block_n <= m and j + block_n - 1 <= i + offset
            )
            found[
                0
                if (skip or (lambda j, last: j > last + offset))(j, last)
                else 2
                if full(i, j)
                else 1
            ] += 1
    return finish(found)


right("skipped_tiles", tiles)
wrong("skipped_tiles", "So skipped is 0, and not 1", lambda *a: tiles(
    *a, finish=lambda x: (x[0] + 1, *x[1:])))  # fmt: skip
wrong("skipped_tiles", "So whole is 0, and not 1", lambda *a: tiles(
    *a, finish=lambda x: (x[0], x[1], sum(x))))  # fmt: skip
wrong(
    "skipped_tiles",
    "So skipped is 1, and not 0",
    lambda *a: tiles(*a, skip=lambda j, last: j > last),
)


def attend(program, memory, Q, K, V, Out, n, m, d, block_m, block_n, start=-math.inf):
    """A kernel that is right, but for where its maximum starts."""
    rows = range(program * block_m, min((program + 1) * block_m, n))
    for i in rows:
        q, keys, values = (
            memory[Q + i * d : Q + (i + 1) * d],
            memory[K : K + m * d].view(m, d),
            memory[V : V + m * d].view(m, d),
        )
        scores = keys @ q / math.sqrt(d)
        weights = torch.exp(scores - max(scores.max().item(), start))
        memory[Out + i * d : Out + (i + 1) * d] = weights @ values / weights.sum()


right("repair_edge", attend)
for start in (-1e4, -1e5, -1e6):
    wrong(
        "repair_edge",
        "scores far below zero",
        lambda *given, start=start: attend(*given, start=start),
    )
