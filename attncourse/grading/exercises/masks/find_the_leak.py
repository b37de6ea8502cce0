"""Exercise find_the_leak: which position is the first to read the future?"""

import math
from functools import partial

import numpy
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize

from attncourse.grading.exercise import Accepted, Case, Counts, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import seeded

ALONE = "one sample, a layer without a mask"


def cases(seed: int) -> list[Case]:
    """A model and an input for each label, all drawn on their own: one tells nothing about another, nor does their order."""
    g = seeded(seed, "sizes")
    b, d, e = (3 + torch.randperm(5, generator=g)[:3]).tolist()
    n = int(torch.randint(8, 11, (), generator=g))
    found = []
    for number in torch.randperm(len(LABELS), generator=seeded(seed, "order")).tolist():
        label = LABELS[number]
        g = seeded(seed, label)
        x = torch.randn(1 if label == ALONE else b, n, d, generator=g).double()
        model = models(x, e, g)[label]
        found.append(Case(label, (partial(called, model, x.shape), x), gradients=False))
    return found


def called(model, shape, x):
    """The output of a model that takes inputs of one shape only."""
    if not isinstance(x, Tensor) or x.shape != shape:
        raise ValueError(f"the model takes inputs of shape {tuple(shape)}")
    return model(x)


def models(x0, e, generator):
    """Models whose outputs are e wide, most of which leak; some know the input."""
    b, n, d = x0.shape
    every, signs = slice(None), (-1.0) ** torch.arange(max(b, e))

    def layer(*pairs):
        """A causal attention layer in which pairs (i, j) of the future are visible, too."""
        w_q, w_k, w_v = (torch.randn(d, k, generator=generator).double() for k in (d, d, e))
        visible = torch.ones(n, n, dtype=torch.bool).tril()
        for i, j in pairs:
            visible[i, j] = True

        def model(x):
            scores = (x @ w_q) @ (x @ w_k).mT / d
            return scores.masked_fill(~visible, -math.inf).softmax(-1) @ (x @ w_v)

        return model

    causal = layer()

    def beside(i, leak, sample=every, feature=every, layer=causal):
        """``leak(x)`` is added to the output at position i."""

        def model(x):
            output = layer(x)
            output[sample, i, feature] += leak(x)
            return output

        return model

    def moved(x):
        """Above 0 wherever the position moves; yet where it is, its gradient is not 0."""
        by = (x - x0)[:, 5].sum(-1, keepdim=True)
        return torch.where(by >= 0, by, -by / 2)

    def faint(x, slope=100.0):
        return 1.2e-6 * torch.tanh(slope * (x - x0)[:, 4, :1])

    return {
        "a causal layer": causal,
        "a strictly causal sum": lambda x: torch.ones(n, n).double().tril(-1) @ x,
        "a causal layer with rounding errors": beside(every, lambda x: 8e-7 * (x != x0).any(), 0, 0),
        "a layer without a mask": layer((every, every)),
        ALONE: layer((every, every)),
        "a mask that is off by one": layer(*((i, i + 1) for i in range(n - 1))),
        "the last but one position reads the last": layer((n - 2, n - 1)),
        "forbidden pairs, 4 reads 5 and 1 reads the last": layer((4, 5), (1, n - 1)),
        "a leak in one feature only": beside(2, lambda x: moved(x)[:, 0] * signs[:b], feature=-1),
        "a leak that reads a difference": beside(1, lambda x: (x[:, 3] - x[:, 4])[:, :1]),
        "a leak behind a LayerNorm": beside(3, lambda x: layer_norm(x[:, 5], (d,))[:, :1]),
        "a leak that only raises the output": beside(3, moved),
        "a leak that only lowers the output": beside(2, lambda x: -moved(x)),
        "a leak that cancels in the mean": beside(1, lambda x: x[0, 4, 0] * signs[:2, None] * signs[:2], slice(2), slice(2)),
        "a leak from the last feature to the first": beside(3, lambda x: x[0, 6, -1], 0, 0),
        "a leak from the first feature to the second": beside(4, lambda x: x[1, 5, 0], 1, 1),
        "a leak that is the same for -x and 2 x": beside(3, lambda x: normalize(x[:, 5]).square()[:, :1]),
        "a faint leak in one number": beside(0, lambda x: faint(x, 1e4)[1, 0], 1, -1, lambda x: 0 * causal(x)),
        "a faint leak where the output is large": beside(0, faint, layer=lambda x: 1e3 + causal(x)),
    }  # fmt: skip


LABELS = tuple(models(torch.zeros(3, 7, 3), 3, torch.Generator()))


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
    ("NaN is no test value: a weight of 0 times NaN is NaN, so hidden values seem to leak.",
     probing(change=lambda tail: tail * math.nan)),
    ("Without a tolerance rounding counts as a leak; a leak moves more than 1e-6.", probing(tol=1e-7)),
    ("The tolerance is too large: a faint leak is a leak. Rounding errors are below 1e-6.", probing(tol=5e-6)),
    ("The tolerance grows with the output (rtol of allclose); a faint leak goes unseen in a large output.",
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
    ("x itself is changed, so later comparisons see it; use x.clone().", probing(copy=lambda x: x)),
    ("The answers are right, but x is changed on the way; work on x.clone().",
     lambda model, x: (smallest(probe(model, x)), x[:, 1:].zero_())[0]),
    ("x is cut after position i; the models are made for the full length.",
     lambda model, x: torch.stack([model(x[:, : i + 1])[:, i] for i in range(x.size(1))])),
))  # fmt: skip

EXERCISE = Exercise(
    name="find_the_leak", answer="first_leak", title="Find the leak", kind="Measure",
    points=2, difficulty=3, minutes=15, needs="section 'Change one token and see who moves' of chapter 2",
    judge=Counts(RIGHT, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=("For one position i: put random numbers at all positions after i. The output at i must stay.",
           "Work on a copy (x.clone()), so that x stays, and keep what the model says of the unchanged x.",
           "Go through i from 0: noise after i, run the model, and look for the largest move of any number at i."),
)  # fmt: skip
