"""A table of scores under a sliding kernel, in steps, and what can be read off a wrong one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.recipe import Recipe, triangle
from attncourse.grading.symptoms import same


def future(n: int, m: int) -> Tensor:
    """Which keys come later than the query: the n queries are the last of m tokens."""
    return ~triangle(n, m, m - n)


def window(c_q: int, c_k: int) -> tuple[int, int, int, int]:
    """Zeros to the left, to the right, above and below the table."""
    return c_k // 2, c_k // 2, c_q - 1, 0


def slide(table: Tensor, kernel: Tensor) -> Tensor:
    """One kernel a head, as it stands: nothing is turned around."""
    return F.conv2d(table, kernel[:, None], groups=kernel.size(0))


@dataclass(frozen=True)
class Convolved:
    """A right answer in steps; `but` replaces some of them.

    Args:
        before, after: (n, m) -> which keys are hidden, before and after the convolution.
        zero: (scores, hidden) -> what is convolved.
        kernel: kernel -> kernel.
        window: (c_q, c_k) -> what `F.pad` adds; below zero it cuts.
        pad: (table, window) -> table.
        slide: (padded table, kernel) -> table.
        hide: (convolved scores, hidden) -> scores.
        normalize: scores -> weights.
        answer: (weights, convolved scores, the scores as given) -> what is returned.
    """

    before: Callable = future
    zero: Callable = lambda scores, hidden: scores.masked_fill(hidden, 0.0)
    kernel: Callable = lambda kernel: kernel
    window: Callable = window
    pad: Callable = F.pad
    slide: Callable = slide
    after: Callable = future
    hide: Callable = lambda scores, hidden: scores.masked_fill(hidden, -math.inf)
    normalize: Callable = lambda scores: scores.softmax(-1)
    answer: Callable = lambda weights, scores, given: weights
    but = Recipe.but

    def __call__(self, scores, kernel):
        n, m = scores.shape[-2:]
        table = self.zero(scores, self.before(n, m))
        kernel = self.kernel(kernel)
        table = self.slide(self.pad(table, self.window(*kernel.shape[-2:])), kernel)
        table = self.hide(table, self.after(n, m))
        return self.answer(self.normalize(table), table, scores)


class Tables(Calls):
    """`Calls` for tables of weights, which sees what is hidden, whether the future counts, and how far a score reaches."""

    def notice(self, expected, seen, seed: int) -> str:
        cases = cases_of(self, seed)
        calls = [(c, *(x.get(f"{c.label}, output") for x in (expected, seen))) for c in cases]
        if not all(plain(got) and got.shape == right.shape for _, right, got in calls):
            return ""
        for tells in (hidden, leaked, reached, shared):
            if says := tells(calls):
                return says
        return ""


def hidden(calls) -> str:
    """What can be told of any table of weights."""
    for case, right, got in calls:
        for says, wrong in (
            ("stands no finite number", ~got.isfinite()),
            ("a later key has weight", (right == 0) & (got.abs() > 1e-6)),
            ("a visible key has no weight at all", (right > 1e-4) & (got == 0)),
            ("a weight is below 0", got < -1e-6),
            ("begins a row whose weights do not sum to 1", (got.sum(-1, keepdim=True) - 1).abs() > 1e-3),
        ):  # fmt: skip
            if wrong.any():
                return f"{case.label}: at {wrong.nonzero()[0].tolist()} {says}."
    return ""


def leaked(calls) -> str:
    """Two calls that differ only in scores of the future."""
    (_, _, first), (_, _, second) = calls[:2]
    moved = ~torch.isclose(first, second, rtol=1e-3, atol=1e-4)
    if not moved.any():
        return ""
    at = moved.nonzero()[0].tolist()
    return (
        f"The first two calls have the same scores, but for those of the future. Yet the weight at {at} is "
        f"{first[tuple(at)].item():.4g} in one and {second[tuple(at)].item():.4g} in the other: the future gets in."
    )


def reached(calls) -> str:
    """Which places a single score of 1 reaches: there the logarithm of a weight differs from most of its row."""
    case, right, got = next(call for call in calls if "single" in call[0].label)
    if same(right, got):
        return ""
    given, spans = case.args[0][0, 0].nonzero()[0].tolist(), []
    for table in (right, got):
        logs = [row[row > 0].log() for row in table[0, 0].double()]
        far = [(row - row.mul(1e3).round().mode().values / 1e3).abs() > 0.01 for row in logs]
        places = [(i, int(j)) for i, row in enumerate(far) for j in row.nonzero()]
        if not places:
            return "A single score of 1 changes nothing: all weights of a row are equal."
        i, j = zip(*places, strict=True)
        spans.append(f"queries {min(i)} to {max(i)} and keys {min(j)} to {max(j)}")
    where = f"A single score of 1, at query {given[0]} and key {given[1]},"
    if spans[0] != spans[1]:
        return f"{where} should change {spans[0]}; here it changes {spans[1]}."
    return f"{where} changes the places that it should, but not by the numbers of the kernel in their order."


def shared(calls) -> str:
    """What the wrong calls have in common and the right ones do not have."""
    wrong = [not same(right, got) for _, right, got in calls]
    for says, has in (
        ("with fewer queries than keys", lambda table, kernel: table.size(2) < table.size(3)),
        ("with as many queries as keys", lambda table, kernel: table.size(2) == table.size(3)),
        ("with several samples", lambda table, kernel: len(table) > 1),
        ("with several heads", lambda table, kernel: len(kernel) > 1),
        ("whose kernel is more than one query high", lambda table, kernel: kernel.size(1) > 1),
        ("whose kernel is more than one key wide", lambda table, kernel: kernel.size(2) > 1),
        ("whose kernel is wider than the table", lambda table, kernel: kernel.size(2) > table.size(3)),
        ("whose kernel is higher than the table", lambda table, kernel: kernel.size(1) > table.size(2)),
    ):  # fmt: skip
        if any(wrong) and [has(*case.args) for case, *_ in calls] == wrong:
            return f"Wrong are the calls {says}, and only these."
    return ""
