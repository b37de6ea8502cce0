"""Exercise online_step: some more keys arrive, and what is known of each row is brought up to date."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.flash._online import Online, rescalings
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.told import Several


def definition(maximum, total, mixed, scores, value, visible):
    """Row by row and key by key, from the sums that the three numbers stand for."""
    found = maximum.clone(), total.clone(), mixed.clone()
    for at in torch.cartesian_prod(*map(torch.arange, total.shape)).tolist():
        seen = [
            (scores[*at, j], value[*at[:2], j]) for j in range(value.size(2)) if visible[at[2], j]
        ]
        highest = max([maximum[*at], *(score for score, _ in seen)])
        if highest == -math.inf:
            continue
        past = math.exp(maximum[*at] - highest)
        found[0][*at] = highest
        found[1][*at] = past * total[*at] + sum(math.exp(score - highest) for score, _ in seen)
        found[2][*at] = past * mixed[*at] + sum(math.exp(score - highest) * v for score, v in seen)
    return found


CALLS = (  # what is special, b h n k e, how loud, the share of rows without a past, of hidden keys
    ("2 samples, 3 heads, 4 queries, 5 keys, values 6 wide", (2, 3, 4, 5, 6), 1, 0, 0),
    ("the first keys of all rows", (2, 2, 3, 4, 5), 1, 1, 0),
    ("hidden keys; some rows have seen none before, some see none now", (2, 3, 6, 4, 5), 1, 0.5, 0.5),
    ("large scores", (1, 2, 5, 7, 3), 200, 0.3, 0.2),
    ("1 key, 4 queries", (3, 2, 4, 1, 5), 1, 0, 0),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Query 0 sees nothing where keys are hidden, and one of its rows has no past either."""
    g, found = seeded(seed), []
    for what, (b, h, n, k, e), loud, fresh, hidden in CALLS:
        maximum, mixed, scores, value = normal(
            g, (b, h, n), (b, h, n, e), (b, h, n, k), (b, h, k, e)
        )
        total = 1 + 3 * torch.rand(b, h, n, generator=g)
        visible = torch.rand(n, k, generator=g) >= hidden
        new = torch.rand(b, h, n, generator=g) < fresh
        if hidden:
            visible[0], visible[1], new[0, 0, :2] = False, True, True
        maximum = (loud * maximum).masked_fill(new, -math.inf)
        total, mixed = total.masked_fill(new, 0.0), mixed.masked_fill(new[..., None], 0.0)
        found.append(Case(what, (maximum, total, mixed, loud * scores, value, visible)))
    return found


@dataclass(frozen=True)
class Step(Online):
    """One step, with a mask."""

    hide: Callable = lambda scores, visible: scores.masked_fill(~visible, -math.inf)
    answer: Callable = lambda new, total, mixed: (new, total, mixed)

    def __call__(self, maximum, total, mixed, scores, value, visible):
        state = maximum, total, mixed
        return self.answer(*self.step(state, self.hide(scores, visible), value))


RIGHT = Step()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def the_past_as_one_more_key(maximum, total, mixed, scores, value, visible):
    """The past is a key with the score m + log l and the value o / l."""
    seen = torch.cat([maximum[..., None], scores.masked_fill(~visible, -math.inf)], dim=-1)
    new = seen.max(dim=-1).values
    weights = torch.nan_to_num(torch.exp(seen - new[..., None]), nan=0.0)
    total = weights[..., 0] * total + weights[..., 1:].sum(-1)
    return (
        new,
        total,
        torch.einsum("bhn,bhne->bhne", weights[..., 0], mixed) + weights[..., 1:] @ value,
    )


@ACCEPTED.add
def key_by_key(maximum, total, mixed, scores, value, visible):
    for j in range(scores.size(-1)):
        score = torch.where(visible[:, j], scores[..., j], -torch.inf)
        new = torch.maximum(maximum, score)
        past, weight = (
            torch.where(x == -torch.inf, 0, torch.exp(x - new)) for x in (maximum, score)
        )
        total, mixed = (
            total * past + weight,
            mixed * past[..., None] + weight[..., None] * value[:, :, None, j],
        )
        maximum = new
    return [maximum, total, mixed]


@ACCEPTED.add
def through_the_log_sum_exp_in_float64(maximum, total, mixed, scores, value, visible):
    seen = scores.double() + torch.zeros(visible.shape).masked_fill(
        visible.logical_not(), -torch.inf
    )
    new = torch.stack([maximum.double(), seen.amax(-1)]).amax(0)
    finite = new.clamp(min=-1e300)
    sums = torch.logaddexp(maximum + total.log(), torch.logsumexp(seen, -1)) - finite
    weights = (seen - finite.unsqueeze(-1)).exp()
    return (
        new,
        sums.exp(),
        mixed * (maximum - finite).exp().unsqueeze(-1) + weights.matmul(value.double()),
    )


def counts_hidden(maximum, total, mixed, scores, value, visible):
    right = RIGHT(maximum, total, mixed, scores, value, visible)
    new = torch.maximum(maximum, scores.amax(-1))
    factor = torch.exp(right[0] - new)
    return new, factor * right[1], factor[..., None] * right[2]


MISTAKES = Mistakes([
    *rescalings(RIGHT),
    *(RIGHT.but(says, **steps) for says, steps in (
        ("The logarithm of the sum is returned; return the sum.", {"answer": lambda m, t, o: (m, t.log(), o)}),
        ("The maximum that is returned has the logarithm of the sum added, which is the log-sum-exp.",
         {"answer": lambda m, t, o: (m + t.log(), t, o)}),
        ("The log-sum-exp is kept where the maximum is asked for.",
         {"largest": lambda old, s: torch.logaddexp(old, s.logsumexp(-1))}),
        ("A row that has seen nothing gets NaN, from infinity minus infinity; it stays at -infinity, 0 and 0.",
         {"shift": lambda new: new}),
        ("A row that has seen nothing has the maximum 0 afterwards; it stays at minus infinity.",
         {"answer": lambda m, t, o: (m.masked_fill(m == -math.inf, 0.0), t, o)}),
        ("The mask is not used.", {"hide": lambda s, visible: s}),
        ("The mask is read the other way round; True = may attend.",
         {"hide": lambda s, visible: s.masked_fill(visible, -math.inf)}),
        ("Hidden scores are set to 0 instead of minus infinity, so hidden keys keep some weight.",
         {"hide": lambda s, visible: s.masked_fill(~visible, 0.0)}),
        *(("Hidden scores become a number such as -1e9: a row that sees nothing believes that it has seen something.",
           {"hide": lambda s, visible, fill=fill: s.masked_fill(~visible, fill)}) for fill in (-1e2, -1e4, -1e6, -1e9, -1e30, torch.finfo(torch.float32).min)),
        ("The booleans are added to the scores: True adds 1, False adds 0, nothing is hidden.",
         {"hide": lambda s, visible: s + visible}),
        ("Only the sum is returned; return (maximum, total, mixed).", {"answer": lambda m, t, o: t}),
        ("Only sum and accumulator are returned; return (maximum, total, mixed).", {"answer": lambda m, t, o: (t, o)}),
        ("The sum comes before the maximum; return (maximum, total, mixed).", {"answer": lambda m, t, o: (t, m, o)}),
        ("The accumulator comes before the sum; return (maximum, total, mixed).", {"answer": lambda m, t, o: (m, o, t)}),
        ("The log-sum-exp is returned in the place of the sum.", {"answer": lambda m, t, o: (m, m + t.log(), o)}),
        ("NaN is replaced at the end, and minus infinity with it; a row that has seen nothing stays at -infinity, 0 and 0.",
         {"shift": lambda new: new, "answer": lambda *state: tuple(x.nan_to_num() for x in state)}),
        ("The accumulator comes first; return (maximum, total, mixed).", {"answer": lambda m, t, o: (o, m, t)}),
        ("Maximum and sum keep an axis of size 1 at the end; return (batch, heads, n).",
         {"answer": lambda m, t, o: (m[..., None], t[..., None], o)}),
        ("The old accumulator is rescaled in place; its caller finds it changed.",
         {"add": lambda o, f, new, t: o.mul_(f[..., None]) + new}),
        ("The scores are hidden in place; their caller finds them changed.",
         {"hide": lambda s, visible: s.masked_fill_(~visible, -math.inf)}),
    )),
    Mistake("The scores are scaled once more; they come scaled.",
            lambda m, t, o, s, v, seen: RIGHT(m, t, o, s / v.size(-1) ** 0.5, v, seen)),
    Mistake("The maximum counts hidden keys; hide them before you look for it.", counts_hidden),
])  # fmt: skip

EXERCISE = Exercise(
    name="online_step",
    judge=Several(
        definition, cases, gradients=False, names=("the maximum", "the sum", "the mixed values")
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
