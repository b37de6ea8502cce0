"""A chunk of gated linear attention behind a state, in steps, and what can be read off a wrong one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.exercises.gated_delta._faded import fading, span
from attncourse.grading.exercises.gated_delta._steps import Steps, parts
from attncourse.grading.exercises.gated_delta._tables import between, later
from attncourse.grading.recipe import Recipe
from attncourse.grading.compare import same


@dataclass(frozen=True)
class Chunk:
    """A right answer in steps; `but` replaces some of them.

    Args:
        total: log-decays -> running sums.
        reads: (running sums, log-decays) -> how much of the old state each token reads, a logarithm.
        table: the same -> how much of each token is left for each later one, (n, n) logarithms.
        later: n -> which places of it are hidden.
        writes: the same -> how much of each token the new state holds.
        keeps: the same -> how much of the old state the new one holds, (b, h, 1).
        scale: (query, value) -> factor.
        factor: logarithms -> factors.
        old: state -> the state that is read and kept.
        answer: (output, state) -> what is returned.
    """

    total: Callable = lambda logs: logs.cumsum(-1)
    reads: Callable = lambda total, logs: total
    table: Callable = between
    later: Callable = later
    writes: Callable = lambda total, logs: total[..., -1:] - total
    keeps: Callable = lambda total, logs: total[..., -1:]
    scale: Callable = lambda query, value: query.size(-1) ** -0.5
    factor: Callable = torch.exp
    old: Callable = lambda state: state
    answer: Callable = lambda output, state: (output, state)
    but = Recipe.but

    def __call__(self, query, key, value, log_decay, state):
        total, scale, old = self.total(log_decay), self.scale(query, value), self.old(state)
        reads, writes, keeps = (f(total, log_decay) for f in (self.reads, self.writes, self.keeps))
        hidden = self.later(query.size(2))
        table = self.factor(self.table(total, log_decay).masked_fill(hidden, -math.inf))
        output = (query * self.factor(reads)[..., None]) @ old + (query @ key.mT * table) @ value
        new = (key * self.factor(writes)[..., None]).mT @ value
        return self.answer(scale * output, self.factor(keeps)[..., None] * old + new)


class Chunks(Steps):
    """`Calls` for (output, state), which tells what has faded by which tokens. The first call has wide values."""

    def explain(self, case, right, got) -> str:
        return found(case, right, got)


def found(case, right, got) -> str:
    """The first factor of a chunk that is wrong."""
    at = 1 if same(right[0], got[0]) else 0
    b, h, i, _ = (~torch.isclose(got[at], right[at], rtol=1e-3, atol=1e-4)).nonzero()[0].tolist()
    where, what = f"{case.label}: in sample {b}, head {h}", ("the output", "the new state")[at]
    if not got[at][b, h].isfinite().all():
        return f"{where} {what} has numbers that are not finite: no exponent should be above 0."
    query, key, value, logs, state = (x[b, h].double() for x in case.args)
    written = key[:, :, None] * value[:, None]
    tables, number, last = (state, *written), got[1][b, h], len(logs) - 1
    if at == 0:
        root = math.sqrt(query.size(-1))
        tables, number, last = [query[i] @ x / root for x in tables], got[0][b, h, i], i
        what = f"row {i} of the output"
    if len(tables) > number.numel() or not all(x.any() for x in tables):
        return f"{where} {what} is wrong{'; the output is right' if at else ''}."
    factors = parts(number, *tables)
    if factors is None:
        return f"{where} {what} is not made of the old state and of the tokens: key and value meet in another way."
    return told(f"{where}, {what}", factors, logs, last)


def told(where: str, factors: list[float], logs: Tensor, last: int) -> str:
    """Which factor differs, and by which tokens it has faded."""
    for k, factor in enumerate(factors):
        first = k  # the state fades by tokens 0 to last, token j by j + 1 to last
        right = math.exp(float(logs[first : last + 1].sum())) if k - 1 <= last else 0.0
        if math.isclose(factor, right, rel_tol=5e-3, abs_tol=1e-3):
            continue
        name = "the old state" if not k else f"token {k - 1}"
        if not right:
            return f"{where}: {name} counts {factor:.3g}; it comes later and counts 0."
        return f"{where}: the factor of {name} {fading(factor, logs, first, last)}; it should have faded {span(first, last)}, {right:.3g}."
    return ""
