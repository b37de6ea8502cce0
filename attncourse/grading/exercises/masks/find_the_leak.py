"""Exercise find_the_leak: which position is the first to read the future?"""

import math

import numpy
import torch

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.masks._find_the_leak_judge import (
    N,
    an_input,
    facts,
    models,
)

ACCEPTED = Accepted()


@ACCEPTED.add
def noise_behind_each_position(model, x):
    before = model(x)
    for i in range(x.size(1) - 1):
        changed = x.clone()
        changed[:, i + 1 :] = torch.randn_like(changed[:, i + 1 :])
        if (model(changed)[:, i] - before[:, i]).abs().max() > 1e-6:
            return i
    return -1


@ACCEPTED.add
def one_position_at_a_time(model, x):
    leaks = []
    for j in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, j] += torch.randn(x.shape[0], x.shape[2], dtype=x.dtype)
        moved = ~torch.isclose(model(changed), model(x), rtol=0, atol=1e-6)[:, :j].all(-1).all(0)
        leaks += moved.nonzero().flatten().tolist()
    return min(leaks, default=-1)


@ACCEPTED.add
def gradients(model, x):
    x = x.detach().clone().requires_grad_()
    output = model(x)
    for i in range(x.size(1)):
        mixed = (output[:, i] * torch.randn_like(output[:, i])).sum()
        (grad,) = torch.autograd.grad(mixed, x, retain_graph=True, allow_unused=True)
        if grad is not None and (grad[:, i + 1 :].abs() > 1e-9).any():
            return i
    return -1


@ACCEPTED.add
def past_kept_with_where(model, x):
    positions = torch.arange(x.size(1))
    other = x.flip(0) * 1.7 + 0.3 * torch.rand_like(x)
    moved = torch.stack(
        [
            (model(torch.where((positions <= i)[:, None], x, other)) - model(x))[:, i].abs().amax()
            for i in positions.tolist()
        ]
    )
    found = (moved > 1e-6).nonzero()
    return found[0, 0] if len(found) else torch.tensor(-1)


@ACCEPTED.add
def first_in_numpy(model, x):
    return numpy.min(probe(model, x) or [-1])  # a numpy.int64


@ACCEPTED.add
def whole_past_compared(model, x):
    expected = model(x.clone())
    n = x.shape[1]
    for first in range(1, n):
        tail = 3 * torch.rand(x.shape[0], n - first, x.shape[2], dtype=x.dtype)
        got = model(torch.cat([x[:, :first], tail], dim=1))
        if not torch.allclose(got[:, :first], expected[:, :first], atol=1e-6):
            return first - 1
    return -1


MISTAKES = Mistakes()


def moved_on(tail):
    return tail.neg() * 1.7 + 0.9


def in_feature(k):
    """A change of one feature only."""

    def change(tail):
        changed = tail.clone()
        changed[..., k] = moved_on(tail[..., k])
        return changed

    return change


def probe(model, x, *, start=0, stop=N - 1, first=1, last=N, change=moved_on, seen=None, tol=1e-6):
    """All positions at which the output moves when ``x[:, i + first : i + last]`` is changed."""
    before, found = model(x), []
    for i in range(start, stop):
        changed = x.clone()
        changed[:, i + first : i + last] = change(x[:, i + first : i + last])
        moved = (model(changed) - before)[:, i]
        moved = moved.abs() if seen is None else seen(moved)
        if not moved.max() <= tol:
            found.append(i)
    return found


def smallest(found):
    return min(found, default=-1)


@MISTAKES.add("Only the last position is changed; that finds only the leaks that reach to the end.")
def last_position_only(model, x):
    changed = x.clone()
    changed[:, -1] = -1.7 * x[:, -1] + 0.9
    moved = (model(changed) - model(x)).abs().amax((0, 2))[:-1] > 1e-6
    return smallest(moved.nonzero().flatten().tolist())


@MISTAKES.add("Only the next position is changed; a leak can read from further ahead.")
def next_position_only(model, x):
    return smallest(probe(model, x, last=2))


@MISTAKES.add(
    "Position i is changed, or later ones are compared, so every model seems to leak; change only "
    "what comes after i and look only at i."
)
def itself_changed(model, x):
    return smallest(probe(model, x, first=0))


@MISTAKES.add("Position 0 is never looked at.")
def starts_at_one(model, x):
    return smallest(probe(model, x, start=1))


@MISTAKES.add("The last but one position is never looked at; it can read the last one.")
def stops_early(model, x):
    return smallest(probe(model, x, stop=N - 2))


@MISTAKES.add("That is the last position that leaks; the smallest is wanted.")
def largest(model, x):
    return max(probe(model, x), default=-1)


@MISTAKES.add("That counts the leaking positions; return the smallest of them.")
def count(model, x):
    return len(probe(model, x)) or -1


@MISTAKES.add("All leaking positions are returned; return the smallest.")
def all_of_them(model, x):
    return probe(model, x)


@MISTAKES.add("Positions are counted from 1; count them from 0.")
def from_one(model, x):
    found = smallest(probe(model, x))
    return found + 1 if found >= 0 else -1


@MISTAKES.add("A causal model gives None; return -1.")
def none_if_causal(model, x):
    return min(probe(model, x), default=None)


@MISTAKES.add("A causal model gives the length of the sequence; return -1.")
def length_if_causal(model, x):
    return min(probe(model, x), default=x.size(1))


@MISTAKES.add("That says whether there is a leak; return where the first one is, or -1.")
def yes_or_no(model, x):
    return bool(probe(model, x))


for which, k in (("first", 0), ("last", -1)):
    MISTAKES.add(f"Only the {which} sample is looked at, or changed; a leak can be in any other.")(
        lambda model, x, k=k: smallest(probe(model, x, seen=lambda y: y[k].abs()))
    )
    MISTAKES.add(f"Only the {which} feature of the output is looked at.")(
        lambda model, x, k=k: smallest(probe(model, x, seen=lambda y: y[..., k].abs()))
    )
    MISTAKES.add(f"Only the {which} feature of x is changed; a leak can read any other.")(
        lambda model, x, k=k: smallest(probe(model, x, change=in_feature(k)))
    )


@MISTAKES.add(
    "The later numbers are only multiplied, by -1 or by 2; a leak that reads only their squares, or "
    "only their ratios, does not notice. Use random numbers."
)
def multiplied(model, x):
    return smallest(probe(model, x, change=torch.neg))


@MISTAKES.add("Without a tolerance rounding counts as a leak; a leak moves more than 1e-6.")
def without_tolerance(model, x):
    return smallest(probe(model, x, tol=0))


@MISTAKES.add("The tolerance is too large: a faint leak is a leak. Rounding errors are below 1e-6.")
def loose(model, x):
    return smallest(probe(model, x, tol=1e-4))


@MISTAKES.add("Without abs() a leak that only lowers the output goes unseen.")
def without_abs(model, x):
    return smallest(probe(model, x, seen=lambda moved: moved))


@MISTAKES.add("Without abs() a leak that only raises the output goes unseen in before - after.")
def without_abs_reversed(model, x):
    return smallest(probe(model, x, seen=lambda moved: -moved))


@MISTAKES.add("In the mean ups and downs cancel; take abs() of each number, then the maximum.")
def mean_first(model, x):
    return smallest(probe(model, x, seen=lambda moved: moved.mean().abs()))


@MISTAKES.add(
    "The same number is added everywhere, and a leak that reads a difference does not notice; use "
    "random numbers."
)
def constant_shift(model, x):
    return smallest(probe(model, x, change=lambda tail: tail + 1.0))


@MISTAKES.add(
    "NaN is no test value: a weight of 0 times NaN is NaN, so hidden values seem to leak."
)
def nan_as_probe(model, x):
    return smallest(probe(model, x, change=lambda tail: tail * math.nan))


@MISTAKES.add(
    "The first leak found is returned, not the one with the smallest i: go through i from 0 upwards."
)
def first_found(model, x):
    return reader_of_the_first_leak(model, x, range(1, N))


@MISTAKES.add(
    "Later positions are changed one by one, from the last backwards, and the first leak found is "
    "returned; the smallest i of all is wanted."
)
def first_found_backwards(model, x):
    return reader_of_the_first_leak(model, x, range(N - 1, 0, -1))


def reader_of_the_first_leak(model, x, order):
    for j in order:
        changed = x.clone()
        changed[:, j] = -1.7 * x[:, j] + 0.9
        moved = (model(changed) - model(x))[:, :j].abs().amax((0, 2)) > 1e-6
        if moved.any():
            return smallest(moved.nonzero().flatten().tolist())
    return -1


@MISTAKES.add("x itself is changed, so later comparisons see it; use x.clone().")
def changed_in_place(model, x):
    before = model(x)
    for i in range(N - 1):
        x[:, i + 1 :] = -1.7 * x[:, i + 1 :] + 0.9
        if (model(x) - before)[:, i].abs().max() > 1e-6:
            return i
    return -1


@MISTAKES.add("The answers are right, but x is changed on the way; work on x.clone().")
def in_place(model, x):
    found = smallest(probe(model, x))
    x[:, 1:] = 0
    return found


@MISTAKES.add(
    "That is the position that was read; return the one that reads, the output that moved."
)
def position_that_was_read(model, x):
    for j in range(1, N):
        changed = x.clone()
        changed[:, j] = -1.7 * x[:, j] + 0.9
        if ((model(changed) - model(x))[:, :j].abs() > 1e-6).any():
            return j
    return -1


@MISTAKES.add("The later positions only change places; a sum over them does not notice.")
def shuffled(model, x):
    return smallest(probe(model, x, change=lambda tail: tail.roll(1, dims=1)))


@MISTAKES.add("x is cut after position i; the models are made for the full length.")
def cut(model, x):
    outputs = [model(x[:, : i + 1])[:, i] for i in range(N)]
    moved = (torch.stack(outputs, dim=1) - model(x)).abs().amax((0, 2)) > 1e-6
    return smallest(moved.nonzero().flatten().tolist())


EXERCISE = Exercise(
    name="find_the_leak",
    answer="first_leak",
    title="Find the leak",
    kind="Measure",
    points=2,
    difficulty=3,
    minutes=15,
    needs="section 'The leak you cannot see in the loss' of chapter 2",
    judge=Facts(facts, (*models(an_input(0)), "x left unchanged")),
    hints=(
        "For one position i: put random numbers at all positions after i. The output at i must stay.",
        "Work on a copy: changed = x.clone(); changed[:, i + 1 :] = torch.randn_like(...).",
        "Return the first i for which (model(changed) - model(x))[:, i].abs().max() > 1e-6, else -1.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
