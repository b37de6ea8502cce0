"""The table of what each token still counts, in steps, and what can be read off a wrong one."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.gated_delta._faded import fading, like, nearly, span
from attncourse.grading.recipe import Recipe
from attncourse.grading.compare import same


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


SMALL = 1e-37  # float32 has hardly anything below
LATER, DIGITS = "later tokens count exactly 0", "the digits of small numbers"


class Tables(Calls):
    """`Calls` for tables of decay: what comes later is exactly 0, and small numbers have their digits, too.

    It tells by which tokens a wrong number has faded.
    """

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        for what, found in super().observe(answer, seed):
            yield what, found
            if what.endswith(", output") and plain(found) and found.dim() == 4:
                label, above = what.removesuffix(", output"), found.double().triu(1)
                yield f"{label}, {LATER}", not above.any() or f"no, some {above.abs().max():.3g}"
                yield f"{label}, {DIGITS}", found.double().tril().clamp(min=SMALL).log()

    def notice(self, expected, seen, seed: int) -> str:
        calls = [
            (case, *(x.get(f"{case.label}, output") for x in (expected, seen)))
            for case in cases_of(self, seed)
        ]
        if not nearly([call[1:] for call in calls]):
            for case, right, got in calls:
                if not like(right, got):
                    return ""
                if not same(right, got):
                    return place(case, right, got.double())
        return exact([case for case, *_ in calls], expected, seen)


def exact(cases: list, expected: dict, seen: dict) -> str:
    """Right but for numbers that are small or should be 0."""
    outputs = [f"{case.label}, output" for case in cases]
    if any(difference(expected[what], seen[what]) for what in outputs):
        return ""
    for case, what in zip(cases, outputs, strict=True):
        right, got = expected[what], seen[what].double()
        if got.triu(1).any():
            return place(case, right, got, got.triu(1) != 0)
        digits = [x[f"{case.label}, {DIGITS}"] for x in (expected, seen)]
        if difference(*digits):
            wrong = ~torch.isclose(*digits[::-1], rtol=1e-3, atol=1e-4)
            return place(case, right, got, wrong) + " Is something cut off or added that is small?"
    return ""


def place(case, right: Tensor, got: Tensor, wrong: Tensor | None = None) -> str:
    """The first wrong number of a table, and what it says."""
    if wrong is None:
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
