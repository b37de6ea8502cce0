"""The table of what each token still counts, in steps, and what can be read off a wrong one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.gated_delta._faded import cut, fading, like, nearly, span
from attncourse.grading.recipe import Recipe
from attncourse.grading.symptoms import same


def later(n: int) -> Tensor:
    """Which tokens j come later than token i."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def between(total: Tensor, logs: Tensor) -> Tensor:
    """Sums of the log-decays of tokens j + 1 to i, in row i and column j."""
    return total[..., :, None] - total[..., None, :]


@dataclass(frozen=True)
class Table:
    """A right answer in steps; `but` replaces some of them.

    Args:
        logs: what is given -> what is summed up.
        total: log-decays -> running sums.
        pairs: (running sums, log-decays) -> (b, h, n, n).
        later: n -> which places are hidden.
        hide: (table, hidden) -> table, before exp.
        power: table -> table.
        finish: (table, hidden) -> what is returned.
    """

    logs: Callable = lambda logs: logs
    total: Callable = lambda logs: logs.cumsum(-1)
    pairs: Callable = between
    later: Callable = later
    hide: Callable = lambda table, hidden: table.masked_fill(hidden, -math.inf)
    power: Callable = torch.exp
    finish: Callable = lambda table, hidden: table
    but = Recipe.but

    def __call__(self, log_decay):
        logs, hidden = self.logs(log_decay), self.later(log_decay.size(-1))
        table = self.hide(self.pairs(self.total(logs), logs), hidden)
        return self.finish(self.power(table), hidden)


class Tables(Calls):
    """`Calls` for tables of decay, which tells by which tokens a wrong number has faded."""

    def notice(self, expected, seen, seed: int) -> str:
        calls = [
            (case, *(x.get(f"{case.label}, output") for x in (expected, seen)))
            for case in cases_of(self, seed)
        ]
        if nearly([call[1:] for call in calls]):
            return cut(expected, seen)
        for case, right, got in calls:
            if not like(right, got):
                return ""
            if not same(right, got):
                return place(case, right, got.double())
        return ""


def place(case, right: Tensor, got: Tensor) -> str:
    """The first wrong number of a table, and what it says."""
    wrong = ~torch.isclose(got, right, rtol=1e-3, atol=1e-4)
    b, h, i, j = wrong.nonzero()[0].tolist()
    where = f"{case.label}: in sample {b}, head {h}, row {i}, column {j}"
    number, logs = got[b, h, i, j].item(), case.args[0][b, h].double()
    if math.isnan(number):
        return f"{where} stands NaN: infinity minus infinity, 0 times infinity or 0 divided by 0."
    if j > i:
        return f"{where} stands {number:.3g}. Token {j} comes later than token {i}, so it counts 0."
    what = fading(number, logs, j + 1, i)
    return f"{where} the number {what}. There token {j} should have faded {span(j + 1, i)}: {right[b, h, i, j]:.3g}."
