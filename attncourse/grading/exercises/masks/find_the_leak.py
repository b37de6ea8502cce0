"""Exercise find_the_leak: which position is the first to read the future?"""

import math
from functools import partial

import numpy
import torch
from torch import Tensor

from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.masks._leaky_models import cases


def moved_on(tail):
    return tail.neg() * 1.7 + 0.9


def probe(model, x, positions=lambda n: range(n - 1), first=1, last=99, copy=torch.clone, change=moved_on,
          seen=Tensor.abs, tol=1e-6, rtol=0.0):  # fmt: skip
    """All positions i at which the output moves when ``x[:, i + first : i + last]`` is changed."""
    before, found = model(x), []
    for i in positions(x.size(1)):
        changed = copy(x)
        changed[:, i + first : i + last] = change(x[:, i + first : i + last])
        moved = seen((model(changed) - before)[:, i])
        if not (moved <= tol + rtol * before[:, i].abs().max()).all():
            found.append(i)
    return found


smallest = partial(min, default=-1)


def probing(pick=smallest, **changed):
    return lambda model, x: pick(probe(model, x, **changed))


RIGHT = probing(change=torch.randn_like)
ACCEPTED = Accepted(noise_behind_each_position=RIGHT)
ACCEPTED["first_in_numpy"] = probing(lambda found: numpy.min(found or [-1]))  # a numpy.int64


@ACCEPTED.add
def one_noise_of_its_own_seed(model, x):
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    positions = torch.arange(x.size(1))
    kept = [torch.where((positions <= i)[:, None], x, noise) for i in positions]
    moved = [(model(y) - model(x))[:, i].abs().amax() for i, y in enumerate(kept)]
    found = (torch.stack(moved) > 1e-6).nonzero()
    return found[0] if len(found) else torch.tensor(-1)


@ACCEPTED.add
def one_position_at_a_time(model, x, pick=lambda pairs: min(i for _, i in pairs)):
    pairs = []  # (j, i): the output at i moves when position j is changed
    for j in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, j] += torch.randn(x.shape[0], x.shape[2], dtype=x.dtype)
        moved = ~torch.isclose(model(changed), model(x), rtol=0, atol=1e-6)[:, :j].all(-1).all(0)
        pairs += [(j, int(i)) for i in moved.nonzero()]
    return pick(pairs) if pairs else -1


@ACCEPTED.add
def gradients(model, x):
    x = x.clone().requires_grad_()
    for i, output in enumerate(model(x).unbind(1)):
        mixed = (output * torch.randn_like(output)).sum()
        (grad,) = torch.autograd.grad(mixed, x, retain_graph=True)
        if (grad[:, i + 1 :].abs() > 1e-9).any():
            return i
    return -1


@ACCEPTED.add
def whole_past_compared(model, x):
    for first in range(1, x.shape[1]):
        got = model(torch.cat([x[:, :first], 3 * torch.rand_like(x[:, first:])], dim=1))
        if (got - model(x))[:, :first].abs().max() > 1e-6:
            return first - 1
    return -1


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("Only the next position is changed; a leak can read from further ahead.", probing(last=2)),
    ("Only the last position is changed; that finds only the leaks that reach to the end.",
     probing(change=lambda tail: torch.cat([tail[:, :-1], moved_on(tail[:, -1:])], 1))),
    ("Position i is changed, or later ones are compared, so every model seems to leak.", probing(first=0)),
    ("Position 0 is never looked at.", probing(positions=lambda n: range(1, n - 1))),
    ("The last but one position is never looked at; it can read the last.",
     probing(positions=lambda n: range(n - 2))),
    ("That is the last position that leaks; the smallest is wanted.", probing(partial(max, default=-1))),
    ("That counts the leaking positions; return the smallest of them.", probing(lambda found: len(found) or -1)),
    ("All leaking positions are returned; return the smallest.", probing(list)),
    ("Positions are counted from 1; count them from 0.", probing(lambda found: min(found) + 1 if found else -1)),
    ("A causal model gives None; return -1.", probing(partial(min, default=None))),
    ("A causal model gives the length of the sequence; return -1.",
     lambda model, x: min(probe(model, x), default=x.size(1))),
    ("That says whether there is a leak; return where the first one is, or -1.", probing(bool)),
    ("That is the position that was read; return the one that reads, the output that moved.",
     partial(one_position_at_a_time, pick=lambda pairs: pairs[0][0])),
    ("The first leak found is returned, not the one with the smallest i: go through i from 0 upwards.",
     partial(one_position_at_a_time, pick=lambda pairs: pairs[0][1])),
    ("The last position is changed first, and the first leak found is returned; the smallest i of all is wanted.",
     partial(one_position_at_a_time, pick=lambda pairs: min(i for j, i in pairs if j == pairs[-1][0]))),
    ("The later numbers are only multiplied, by -1 or by 2; a leak that reads only their squares or ratios does "
     "not notice. Use random numbers.", probing(change=torch.neg)),
    ("The same number is added everywhere; a leak that reads a difference does not notice.",
     probing(change=lambda tail: tail + 1.0)),
    ("The same number is added to all features of a position; a leak behind a LayerNorm does not notice.",
     probing(change=lambda tail: tail + torch.arange(tail.size(1))[:, None] + 1)),
    *((f"The {what} only change places; {blind} does not notice. Use random numbers.",
       probing(change=lambda tail, axis=axis: tail.roll(1, axis))) for axis, what, blind in (
        (1, "later positions", "a sum over them"), (2, "features of a position", "a leak that reads their sum"),
        (0, "samples", "one sample alone"))),
    ("Every model seems to leak at position 0. Was NaN the test value? 0 times NaN is NaN, so hidden values seem to leak.",
     probing(change=lambda tail: tail * math.nan)),
    ("Without a tolerance rounding counts as a leak; a leak moves more than 1e-6.", probing(tol=1e-7)),
    ("A faint leak goes unseen: the tolerance is larger than 1e-6, or the change too small.", probing(tol=5e-6)),
    ("A faint leak in a large output goes unseen: the tolerance grows with the output, as rtol does, or the change is small.",
     probing(rtol=1e-5)),
    ("Without abs() a leak that only lowers the output goes unseen.", probing(seen=lambda moved: moved)),
    ("Without abs() a leak that only raises the output goes unseen in before - after.", probing(seen=torch.neg)),
    *(("In a mean or sum ups and downs cancel, in its gradient too; look at each number of the output alone.", probing(seen=seen))
      for seen in (lambda moved: moved.mean().abs(), lambda moved: moved.sum().abs())),
    ("In the mean a faint leak in one number goes under; take the maximum.",
     probing(seen=lambda moved: moved.abs().mean())),
    *(mistake for which, k in (("first", 0), ("last", -1)) for mistake in (
        (f"Only the {which} sample is looked at, or changed; a leak can be in any other.",
         probing(seen=lambda moved, k=k: moved[k].abs())),
        (f"Only the {which} feature of the output is looked at.",
         probing(seen=lambda moved, k=k: moved[:, k].abs())),
        (f"Only the {which} feature of x is changed; a leak can read any other.",
         probing(change=lambda tail, k=k: tail.select_scatter(moved_on(tail[..., k]), 2, k))))),
    *(("In a mean or sum ups and downs cancel, in its gradient too; look at each number of the output alone.", probing(seen=seen))
      for seen in (lambda moved: moved.mean(-1).abs(), lambda moved: moved.sum(0).abs())),
    *(("Not every number of a leaking output moves: take the largest move, not the smallest or the median, and any, not all.",
       probing(seen=seen)) for seen in (lambda moved: moved.abs().min(), lambda moved: moved.abs().median())),
    ("No leak is found in any model. Is the changed input a copy, the change large enough, and no number in it NaN?", lambda model, x: -1),
    ("A causal model gives 0, which is a position; return -1.", probing(partial(min, default=0))),
    ("Position 0 is taken for no leak: 0 counts as False in `or` and `if`.",
     probing(lambda found: min(found, default=0) or -1)),
    ("The same change at every position and in every sample: a leak that reads a difference does not notice.",
     probing(change=lambda tail: tail + torch.arange(1, tail.size(2) + 1))),
    ("Only half of the positions are looked at.", probing(positions=lambda n: range(n // 2))),
    ("Only every second position is looked at.", probing(positions=lambda n: range(0, n - 1, 2))),
    ("Only position 0 is looked at.", probing(positions=lambda n: range(1))),
    ("Only positions after i + 1 are changed; the output at i must not read position i + 1 either.",
     probing(first=2, positions=lambda n: range(n - 2))),
    ("x itself is changed, so later comparisons see it; use x.clone().", probing(copy=lambda x: x)),
    ("The answers are right, but x is changed on the way; work on x.clone().",
     lambda model, x: (smallest(probe(model, x)), x[:, 1:].zero_())[0]),
    ("x is cut after position i; the models are made for the full length.",
     lambda model, x: torch.stack([model(x[:, : i + 1])[:, i] for i in range(x.size(1))])),
))  # fmt: skip

EXERCISE = Exercise(
    name="find_the_leak",
    answer="first_leak",
    judge=Counts(RIGHT, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
