"""Exercise convolve_scores: every score learns of its neighbours, and nothing of the future."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.multi_token._convolved import (
    Convolved,
    filled,
    future,
    positive,
)
from attncourse.grading.exercises.multi_token._notices import Tables
from attncourse.grading.exercises.multi_token._slips import (
    HIDDEN,
    SOFTMAXES,
    WHOLE,
    ZEROS,
    corner,
    families,
)
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(scores, kernel):
    """The loops of the convolution, on a table whose future is 0; what comes out of it gets no weight where it is later."""
    later = future(*scores.shape[2:])
    found = spec.convolve(scores.masked_fill(later, 0.0), kernel)
    return found.masked_fill(later, -math.inf).softmax(-1)


CALLS = (  # what is special; batch, heads, n, m, c_q, c_k
    ("2 samples, 3 heads, 5 tokens, a kernel of 2 by 3", (2, 3, 5, 5, 2, 3)),
    ("the same, with other scores in the future", (2, 3, 5, 5, 2, 3)),
    ("a single score of 1, a kernel of 3 by 5", (1, 1, 15, 15, 3, 5)),
    ("the last 4 of 7 tokens, a kernel of 3 by 5", (1, 2, 4, 7, 3, 5)),
    ("one new token after 5, a kernel of 2 by 3", (3, 2, 1, 6, 2, 3)),
    ("a kernel of 4 by 9, larger than the table", (1, 2, 3, 4, 4, 9)),
    ("a kernel of 1 by 3", (2, 1, 4, 4, 1, 3)),
    ("a kernel of 4 by 1", (1, 3, 6, 6, 4, 1)),
    ("scores below -1e8, a kernel of 2 by 3", (2, 2, 3, 4, 2, 3)),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, c_q, c_k) in CALLS:
        scores = 2 * torch.randn(b, h, n, m, generator=g)
        kernel = torch.randn(h, c_q, c_k, generator=g)
        kernel = kernel + 0.3 * kernel.sign()  # no weight is nearly 0
        if what.startswith("the same"):
            given, kernel = found[0].args
            scores = torch.where(future(n, m), scores, given)
        if "single" in what:
            i = int(torch.randint(11, 13, (), generator=g))
            scores = torch.zeros(b, h, n, m)
            scores[:, :, i, i - 4] = 1.0
        if "below" in what:
            scores, kernel = -1.5e8 - 1e7 * scores.abs(), positive(kernel)
        found.append(Case(what, (scores, kernel), gradients="last 4" in what or "larger" in what))
    return found


RIGHT = Convolved()
ACCEPTED = Accepted(padded_conv2d=RIGHT)


@ACCEPTED.add
def a_sum_of_shifted_tables(scores, kernel):
    """Cut out a shifted table for each weight of the kernel."""
    n, m = scores.shape[2:]
    _, c_q, c_k = kernel.shape
    seen = scores.tril(m - n)
    large = F.pad(seen, (c_k // 2, c_k // 2, c_q - 1, 0))
    total = 0
    for a in range(c_q):
        for b in range(c_k):
            total = total + kernel[:, a, b, None, None] * large[:, :, a : a + n, b : b + m]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return torch.where(seen, total, -torch.inf).softmax(dim=-1)


@ACCEPTED.add
def unfolded_windows(scores, kernel):
    n, m = scores.shape[2:]
    c_q, c_k = kernel.shape[1:]
    visible = torch.arange(m) <= torch.arange(m - n, m)[:, None]
    large = F.pad(scores * visible, (c_k // 2, c_k // 2, c_q - 1, 0))
    windows = large.unfold(2, c_q, 1).unfold(3, c_k, 1)
    out = torch.einsum("bhijxy,hxy->bhij", windows, kernel)
    return F.softmax(out.masked_fill(visible.logical_not(), -1e9), -1)


@ACCEPTED.add
def padding_by_conv2d_and_cut(scores, kernel):
    """Pad on both sides, and keep the first n rows."""
    heads, c_q, c_k = kernel.shape
    n, m = scores.shape[2:]
    visible = (~torch.triu(torch.ones(n, m), m - n + 1).bool())[None, None]
    out = F.conv2d(
        torch.where(visible, scores, 0.0),
        kernel.reshape(heads, 1, c_q, c_k),
        padding=(c_q - 1, (c_k - 1) // 2),
        groups=heads,
    )[:, :, :n]
    return (out + torch.zeros(n, m).masked_fill(~visible, -math.inf)).softmax(-1)


@ACCEPTED.add
def head_by_head_in_numpy_style(scores, kernel):
    """Loops over heads and over the rows of the kernel; each row is a convolution along the keys, in float64."""
    b, heads, n, m = scores.shape
    rows = torch.arange(m - n, m).unsqueeze(-1)
    mask = torch.arange(m) > rows
    outs = []
    for h in range(heads):
        table = scores[:, h].double().masked_fill(mask, 0)
        total = torch.zeros_like(table)
        for back, weights in enumerate(kernel[h].double().flip(0)):
            if back < n:
                earlier = torch.cat([table.new_zeros(b, back, m), table[:, : n - back]], 1)
                line = earlier.reshape(-1, 1, m)
                total = total + F.conv1d(line, weights[None, None], padding=len(weights) // 2).view(
                    b, n, m
                )
        total = total.masked_fill(mask, -math.inf)
        outs.append((total - total.amax(-1, keepdim=True)).exp())
    weights = torch.stack(outs, 1)
    return weights / weights.sum(-1, keepdim=True)


def in_place(scores, hidden):
    return scores.masked_fill_(hidden, 0.0)


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    *ZEROS,
    ("Before the convolution query i is taken for token i; the n queries are the last of m tokens.", {"before": corner}),
    ("After the convolution query i is taken for token i; the n queries are the last of m tokens.", {"after": corner}),
    ("Query i is taken for token i, before the convolution and after it; the n queries are the last of m tokens.",
     {"before": corner, "after": corner}),
    *HIDDEN,
    ("There are no zeros around the table, so it shrinks; the result is as large as the scores.",
     {"above": lambda c_q: (0, 0), "beside": lambda c_k: (0, 0), "hide": lambda scores, hidden: scores}),
    ("There are c_q - 1 rows too many; cut the result to n queries.",
     {"above": lambda c_q: (c_q - 1, c_q - 1), "hide": lambda scores, hidden: scores}),
    *SOFTMAXES,
    ("The softmax comes before the convolution; here the scores are convolved, and then become weights.",
     {"zero": lambda scores, hidden: scores.masked_fill(hidden, -math.inf).softmax(-1), "normalize": lambda scores: scores,
      "hide": filled(0.0)}),
    ("The convolved scores are added to those that came in; they take their place.",
     {"answer": lambda weights, scores, given: (scores + given).softmax(-1)}),
    ("The convolved scores are divided by a square root; scores come in scaled, and the kernel's weights stay as they are.",
     {"normalize": lambda scores: (scores / scores.size(-1) ** 0.5).softmax(-1)}),
    ("The convolved scores are multiplied by a square root; scores come in scaled, and the kernel's weights stay as they are.",
     {"normalize": lambda scores: (scores * scores.size(-1) ** 0.5).softmax(-1)}),
    ("0 times infinity is NaN, so a mask cannot be multiplied by minus infinity; use masked_fill.",
     {"hide": lambda scores, hidden: scores + hidden * -math.inf}),
    ("The weights are returned with the scores; return the weights alone.", {"answer": lambda weights, scores, given: (weights, scores)}),
    ("The mean of all samples is returned; each has its own table.",
     {"answer": lambda weights, scores, given: weights.mean(0, keepdim=True).expand_as(weights)}),
    ("The mean of all heads is returned; each has its own table.",
     {"answer": lambda weights, scores, given: weights.mean(1, keepdim=True).expand_as(weights)}),
    ("Rows and columns of the result are exchanged: rows are queries.", {"answer": lambda weights, scores, given: weights.mT}),
    ("The scores are changed in place; their caller finds zeros in the future.", {"zero": in_place}),
    ("No gradient flows back to the kernel: it is detached.", {"kernel": Tensor.detach}),
    ("No gradient flows back to the scores: they are detached.",
     {"zero": lambda scores, hidden: scores.detach().masked_fill(hidden, 0.0)}),
    ("No gradient flows back: the result is detached or made inside no_grad.",
     {"answer": lambda weights, scores, given: weights.detach()}),
))  # fmt: skip
MISTAKES += families(RIGHT)
MISTAKES = Mistakes(
    replace(mistake, steps={}) if {"answer", "normalize"} & mistake.steps.keys() else mistake
    for mistake in MISTAKES  # a check compares any two that have steps; these are seldom one of two
)
MISTAKES += [Mistake(says, answer) for says, answer in WHOLE]

EXERCISE = Exercise(
    name="convolve_scores",
    answer="convolved_weights",
    judge=Tables(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
