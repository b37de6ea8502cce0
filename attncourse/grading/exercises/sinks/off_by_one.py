"""Exercise off_by_one: a softmax with one more in its denominator, in a form that bears every score."""

import math

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.sinks._softmax import (
    NONE,
    PLAIN,
    Softmax,
    clamped,
    extended,
    largest_alone,
)
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(scores, dim):
    """One row at a time. Each exponential is divided by the largest before they are added up, the 1 too."""
    rows, found = scores.movedim(dim, -1), []
    for row in rows.reshape(-1, rows.size(-1)):
        largest = max(0.0, row.max().item())
        total = math.exp(-largest) + sum(torch.exp(s - largest) for s in row)
        found.append(torch.stack([torch.exp(s - largest) / total for s in row]))
    return torch.stack(found).reshape(rows.shape).movedim(-1, dim)


CALLS = (  # what is special, shape, dim, factor on the scores, what is added, the share that is hidden
    ("the last of 3 axes", (2, 3, 5), -1, 1, 0.0, 0),
    ("the middle of 3 axes", (4, 3, 2), 1, 1, 0.5, 0),
    ("one row, dim=0", (6,), 0, 1, -0.5, 0),
    ("scores from about -1000 to 1000", (2, 5, 6), -1, 400, 0.0, 0),
    ("all scores about -1000", (3, 2, 4), -1, 5, -1000.0, 0),
    ("all scores about 1000", (3, 2, 4), 1, 5, 1000.0, 0),
    ("rows of minus infinity, and others beside them", (2, 3, 4, 5), -1, 2, 0.0, 0.5),
    ("4 axes, dim=-3", (3, 4, 2, 5), -3, 1, 0.0, 0),
    ("a single score", (1, 1), -1, 1, 0.3, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, shape, dim, loud, added, hidden in CALLS:
        scores = loud * torch.randn(shape, generator=g) + added
        if hidden:
            scores = scores.masked_fill(torch.rand(shape, generator=g) < hidden, -math.inf)
            scores[0, 0, 0], scores[1, 1, 1] = -math.inf, 700.0
        found.append(Case(what, (scores, dim), gradients=loud == 1))
    return found


RIGHT = Softmax()
ACCEPTED = Accepted(largest_or_zero=RIGHT)


def zeros(scores, dim):
    """One more score a row, all 0."""
    return torch.zeros_like(scores.narrow(dim, 0, 1))


@ACCEPTED.add
def a_zero_behind(scores, dim):
    weights = torch.cat([scores, zeros(scores, dim)], dim).softmax(dim)
    return weights.narrow(dim, 0, scores.size(dim))


@ACCEPTED.add
def a_zero_in_front(scores, dim):
    rows = F.pad(scores.movedim(dim, -1), (1, 0))
    return F.softmax(rows, -1)[..., 1:].movedim(-1, dim)


@ACCEPTED.add
def log_sum_exp(scores, dim):
    every = torch.cat([scores, zeros(scores, dim)], dim)
    return torch.exp(scores - torch.logsumexp(every, dim, keepdim=True))


@ACCEPTED.add
def sigmoid_of_lse(scores, dim):
    """The softmax, times the share that the scores have against the 1."""
    lse = scores.logsumexp(dim, keepdim=True)
    return scores.softmax(dim).nan_to_num(0.0) * torch.sigmoid(lse)


@ACCEPTED.add
def one_exponential_against_the_others(scores, dim):
    rows = scores.double().movedim(dim, -1)
    other = F.pad(rows, (0, 1))
    apart = torch.nan_to_num(other[..., None, :] - rows[..., None], nan=-math.inf, posinf=math.inf)
    return torch.where(rows > -math.inf, 1 / apart.exp().sum(-1), 0.0).movedim(-1, dim)


FORMS = (
    ("The weights sum to 1, as those of the ordinary softmax do; the 1 in the denominator is missing.", PLAIN),
    ("The weights sum to 1, as those of the ordinary softmax do; the 1 in the denominator is missing.", {"one": lambda largest: 0.0}),
    ("The weights sum to 1, except in rows of minus infinity, which give 0; the 1 in the denominator is missing.",
     {**PLAIN, "answer": lambda x, t, dim: (x / t).nan_to_num(0.0)}),
    ("The largest score is subtracted, but 1 is added as it is; it must shrink by the same factor, to exp(-largest).",
     {"one": lambda largest: 1.0}),
    ("The largest score is subtracted, but 1 is added as it is; it must shrink by the same factor, to exp(-largest).",
     {"largest": largest_alone, "one": lambda largest: 1.0}),
    ("The exponential overflows on large scores: infinity over infinity is NaN. Subtract the largest first.", NONE),
    ("The exponential overflows, and 0 stands where the largest score has the weight 1. Subtract the largest first.",
     {**NONE, "answer": lambda x, t, dim: (x / t).nan_to_num(0.0)}),
    ("The exponential overflows, and 1 stands where it did, though other scores are larger. Subtract the largest first.",
     {**NONE, "answer": lambda x, t, dim: (x / t).nan_to_num(1.0)}),
    ("The largest absolute value is subtracted, so rows far below 0 have nothing left; subtract the largest score.",
     {"largest": lambda s, dim: s.abs().amax(dim, keepdim=True)}),
    ("Negative scores are set to 0; they are scores like others.", {"clean": lambda s: s.clamp(min=0.0)}),
    ("Scores of minus infinity become 0, so that hidden keys get weight.", {"clean": lambda s: s.masked_fill(s == -math.inf, 0.0)}),
    ("The exponential overflows in float64 as well. Subtract the largest first.", {**NONE, "clean": torch.Tensor.double}),
    ("A row of minus infinity gives NaN, since its largest score is subtracted from itself; subtract no less than 0, "
     "the score of the 1.", {"largest": largest_alone}),
    ("The largest of all scores is subtracted, and rows far below it vanish; subtract that of the row.",
     {"largest": lambda s, dim: s.max().clamp(min=0.0)}),
    ("The smallest score of the row is subtracted, so large ones still overflow; subtract the largest.",
     {"largest": lambda s, dim: s.amin(dim, keepdim=True).clamp(min=0.0)}),
    ("The mean of the row is subtracted, so large scores still overflow; subtract the largest.",
     {"largest": lambda s, dim: s.mean(dim, keepdim=True)}),
    ("The sign of the shift is wrong where it meets the 1: it becomes exp(-largest).", {"one": torch.exp}),
    ("The 1 becomes 1 - largest; a shift divides exponentials, so it becomes exp(-largest).",
     {"one": lambda largest: 1 - largest}),
    ("A score of 1 is added, whose exponential is 2.718; that of the 1 in the denominator is 0.",
     {"one": lambda largest: torch.exp(1 - largest)}),
    ("The softmax always runs over the last axis; it runs along dim.", {"axis": lambda s, dim: -1}),
    ("The softmax always runs over the first axis; it runs along dim.", {"axis": lambda s, dim: 0}),
    ("The softmax always runs over axis 1; it runs along dim.", {"axis": lambda s, dim: min(1, s.dim() - 1)}),
    ("A dim that is counted from the end is counted from the front.", {"axis": lambda s, dim: min(abs(dim), s.dim() - 1)}),
    ("The softmax runs over all axes at once; it runs along dim.", {"axis": lambda s, dim: tuple(range(s.dim()))}),
    ("The sum loses its axis, so that it meets the wrong rows; keepdim=True.",
     {"total": lambda x, one, dim: one.squeeze(dim) + x.sum(dim)}),
    ("Every exponential is divided by 1 and itself, which is the sigmoid; divide by 1 and all exponentials of the row.",
     {"largest": lambda s, dim: 0.0, "one": lambda x: 1.0, "exponential": torch.sigmoid, "answer": lambda x, t, dim: x}),
    ("The 1 is added once for every score; it is added once.", {"total": lambda x, one, dim: (one + x).sum(dim, keepdim=True)}),
    ("Every exponential is divided by 1 and itself, which is the sigmoid; divide by 1 and all exponentials of the row.",
     {"total": lambda x, one, dim: one + x}),
    ("The 1 is subtracted; it is added.", {"total": lambda x, one, dim: x.sum(dim, keepdim=True) - one}),
    ("The mean of the exponentials stands in the denominator; it is their sum.",
     {"total": lambda x, one, dim: one + x.mean(dim, keepdim=True)}),
    ("The largest exponential stands in the denominator; it is the sum of all.",
     {"total": lambda x, one, dim: one + x.amax(dim, keepdim=True)}),
    ("A small number is added instead of 1.", {"one": lambda largest: 1e-6}),
    ("The 1 is added in the numerator, too; there stands the exponential alone.",
     {"answer": lambda x, t, dim: (x + t - x.sum(dim, keepdim=True)) / t}),
    ("Weights are made first, and then divided by 1 and their sum, which is 2; the 1 meets the exponentials.",
     {**PLAIN, "answer": lambda x, t, dim: x / t / 2}),
    ("The weights sum to 1, as those of the ordinary softmax do; the 1 in the denominator is missing.",
     {"answer": lambda x, t, dim: x / t / (x / t).sum(dim, keepdim=True)}),
    ("These are the logarithms of the weights.", {"answer": lambda x, t, dim: (x / t).log()}),
    ("The exponentials are returned; divide them.", {"answer": lambda x, t, dim: x}),
    ("The denominator is returned; divide by it.", {"answer": lambda x, t, dim: t}),
    ("The weights are returned with their sum; return the weights.", {"answer": lambda x, t, dim: (x / t, (x / t).sum(dim))}),
    ("What the 1 takes is returned: 1 minus the sum of the weights. Return the weights.",
     {"answer": lambda x, t, dim: 1 - x.sum(dim, keepdim=True) / t}),
    ("The sign of the scores is turned: the best one gets the least weight.",
     {"clean": lambda s: torch.where(s == -math.inf, s, -s)}),
    ("The exponential is missing.", {**NONE, "exponential": lambda s: s}),
    ("Powers of 2 are taken; the softmax takes powers of e.", {"exponential": torch.exp2, "one": lambda x: torch.exp2(-x)}),
    ("No gradient flows back: the result is detached or made inside no_grad.", {"answer": lambda x, t, dim: (x / t).detach()}),
    ("No gradient flows through the denominator: it is detached.", {"answer": lambda x, t, dim: x / t.detach()}),
    ("The weights are rounded.", {"answer": lambda x, t, dim: (x / t).round(decimals=2)}),
    ("Scores are clamped, so that all beyond a bound are the same; subtract the largest instead.",
     {**NONE, "clean": lambda s: s.double().clamp(max=700.0)}),
    *(("Scores are clamped, so that all beyond a bound are the same; subtract the largest instead.", {"clean": clean})
      for low in (-1e2, -1e9) for high in (10.0, 20.0, 30.0, 50.0, 60.0, 80.0, 85.0, 88.0, 100.0)
      for clean in (clamped(low, high), clamped(-high, high))),
)  # fmt: skip
MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in FORMS])
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("The weight of the 1 is returned, too; leave it out.", extended(lambda w: w)),
    ("The wrong end is cut off: the weight of the last score is lost, that of the 1 is there.",
     extended(lambda w: torch.cat([w[..., -1:], w[..., :-2]], -1))),
    ("The wrong end is cut off: the weight of the first score is lost, that of the 1 is there.", extended(lambda w: w[..., 1:])),
    ("The 0 is appended to the last axis, whatever dim is.", lambda s, dim: F.pad(s, (0, 1)).softmax(dim)[..., :-1]),
    ("The 0 is appended to the first axis, whatever dim is.",
     lambda s, dim: torch.cat([s, 0 * s.nan_to_num(neginf=0.0)[:1]]).softmax(dim)[:-1]),
    ("A score of 1 is added, whose exponential is 2.718; that of the 1 in the denominator is 0.",
     extended(lambda w: w[..., :-1], 1.0)),
    ("The sign of the scores is turned, that of minus infinity as well: the best key gets the least weight.", lambda s, dim: RIGHT(-s, dim)),
    ("All weight goes to the best key; that is argmax, not softmax.",
     lambda s, dim: torch.zeros_like(s).scatter(dim, s.argmax(dim, keepdim=True), 1.0)),
    ("All keys that are not hidden get the same weight; the scores are not used.",
     lambda s, dim: RIGHT(torch.where(s == -math.inf, s, 0 * s), dim)),
    ("The 1 is added to the weights; it belongs into the denominator.", lambda s, dim: 1 + RIGHT(s, dim)),
    ("The 1 in the denominator is 1 over the number of keys; it is 1, however many keys there are.",
     lambda s, dim: RIGHT(s + math.log(s.size(dim)), dim)),
    ("The last two axes of the weights are exchanged.", lambda s, dim: RIGHT(s, dim).mT),
    ("The weights sum to 1, as those of the ordinary softmax do; the 1 in the denominator is missing.",
     extended(lambda w: w[..., :-1], -math.inf)),
    ("The scores are changed in place; work on a new tensor.",
     lambda s, dim: RIGHT(s.sub_(0 * s.nan_to_num(neginf=0.0)).mul_(1.5).div_(1.5).add_(1).sub_(1), dim)),
)]  # fmt: skip

EXERCISE = Exercise(
    name="off_by_one", judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
