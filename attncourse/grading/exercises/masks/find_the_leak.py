"""Exercise find_the_leak: which position is the first to read the future?"""

import math
import numbers
import random
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize

from attncourse.grading.compare import Raised
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.observe import run


@lru_cache(maxsize=8)
def questions(seed: int) -> dict[str, tuple]:
    """Models, an input and the first leak (-1: none); some know the input. Their order is no answer."""
    generator = torch.Generator().manual_seed(7_391_000 + seed)  # not what an answer draws from
    b, d, e = (3 + torch.randperm(5, generator=generator)[:3]).tolist()
    n = int(torch.randint(7, 10, (), generator=generator))
    x0 = torch.randn(b, n, d, generator=generator).double()
    past = torch.ones(n, n, dtype=torch.bool).tril()

    def layer(mask, width=e):
        """An attention layer (b, n, d) -> (b, n, width)."""
        w_q, w_k, w_v = (torch.randn(d, k, generator=generator).double() for k in (d, d, width))

        def model(x):
            scores = (x @ w_q) @ (x @ w_k).mT / d
            return scores.masked_fill(~mask, -math.inf).softmax(-1) @ (x @ w_v)

        return model

    def reading(*pairs):
        """A layer that reads these pairs (i, j) as well, or (sample, i, j)."""
        masks = past.repeat(b, 1, 1)
        for pair in pairs:
            masks[(..., *pair)] = True
        return layer(masks)

    causal, inner, every = layer(past), layer(past, d), slice(None)

    def beside(i, leak, sample=every, feature=every, layer=causal):
        """``leak(x)`` is added to the output at position i."""

        def model(x):
            added = torch.zeros(b, n, e, dtype=x.dtype)
            added[sample, i, feature] = leak(x)
            return layer(x) + added

        return model

    def above(by):
        """Above 0 wherever it is not 0; yet there its gradient is not 0."""
        return torch.where(by >= 0, by, -by / 2)

    def moved(x):
        return above((x - x0)[:, 5].sum(-1, keepdim=True))

    def faint(x):
        return 3e-6 * above(torch.tanh(20 * (x - x0)[:, 4, :1]))

    signs = (-1.0) ** torch.arange(max(b, e))
    models = {
        "a causal layer": (causal, -1),
        "two causal layers": (lambda x: causal(inner(x)), -1),
        "a running mean": (lambda x: x.cumsum(1) / torch.arange(1, n + 1)[:, None], -1),
        "a strictly causal sum": (lambda x: past.tril(-1).double() @ x, -1),
        "a causal layer with rounding errors": (beside(every, lambda x: 5e-7 * (x != x0).any(), 0, 0), -1),
        "a layer without a mask": (layer(past | True), 0),
        "a mask that is off by one": (layer(past.roll(-1, 1) | past), 0),
        "the last but one position reads the last": (reading((n - 2, n - 1)), n - 2),
        "one forbidden pair, far away": (reading((1, 5)), 1),
        "three forbidden pairs": (reading((5, 6), (2, 4), (3, 6)), 2),
        "forbidden pairs, 4 reads 5 and 1 reads the last": (reading((4, 5), (1, n - 1)), 1),
        "a leak in the last sample only": (reading((-1, 4, 6)), 4),
        "a leak in one feature only": (beside(2, lambda x: moved(x)[:, 0] * signs[:b], feature=-1), 2),
        "a leak that reads a difference": (beside(1, lambda x: (x[:, 3] - x[:, 4])[:, :1]), 1),
        "a leak that reads the sum of the features": (beside(2, lambda x: x[:, 4].sum(-1)[:, None]), 2),
        "a leak behind a LayerNorm": (beside(3, lambda x: layer_norm(x[:, 5], (d,))[:, :1]), 3),
        "a leak that only lowers the output": (beside(2, lambda x: -moved(x)), 2),
        "a leak that only raises the output": (beside(3, moved), 3),
        "a leak that cancels in the mean": (
            beside(1, lambda x: x[:, 4, :1] * signs[:2], feature=slice(2)), 1),
        "a leak from the last feature to the first, in the first sample": (
            beside(3, lambda x: x[0, 6, -1], 0, 0), 3),
        "a leak from the first feature to the second, in the second sample": (
            beside(4, lambda x: x[1, 5, 0], 1, 1), 4),
        "a leak that is the same for -x and 2 x": (beside(3, lambda x: normalize(x[:, 5]).square()[:, :1]), 3),
        "a faint leak in one number, where the output is 0": (beside(0, lambda x: faint(x)[1, 0], 1, -1, lambda x: 0 * causal(x)), 0),
        "a faint leak where the output is large": (beside(0, faint, layer=lambda x: 1e3 + causal(x)), 0),
    }  # fmt: skip
    found = {name: (model, x0, leak) for name, (model, leak) in models.items()}
    found["one sample, a layer without a mask"] = models["a layer without a mask"][0], x0[:1], 0
    names = list(found)
    random.Random(seed).shuffle(names)
    return {name: found[name] for name in names}


class FirstLeaks:
    """Judges what an answer says of each model, and whether it leaves the input alone."""

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        untouched = True
        for name, (model, x, _) in questions(seed).items():
            given = x.clone()
            found = run(answer, partial(called, model, x.shape), given)
            yield name, whole(found)
            if isinstance(found, Raised):
                return
            untouched &= torch.equal(given, x)
        yield "x left unchanged", untouched

    def expected(self, seed: int) -> dict[str, Any]:
        leaks = {name: leak for name, (_, _, leak) in questions(seed).items()}
        return leaks | {"x left unchanged": True}


def called(model, shape, x):
    """The output of a model that takes inputs of one shape only."""
    if not isinstance(x, Tensor) or x.shape != shape:
        raise ValueError(f"the model takes inputs of shape {tuple(shape)}")
    return model(x)


def whole(found):
    """A whole number as an int, whatever holds it; anything else as it is."""
    if isinstance(found, Tensor) and found.numel() == 1 and found.dtype != torch.bool:
        found = found.item()
    number = isinstance(found, numbers.Number) and not isinstance(found, bool)  # numpy's is none
    return next((k for k in range(-1, 20) if number and k == found), found)


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
def one_noise_of_its_own_seed(model, x):
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    positions = torch.arange(x.size(1))
    for i in positions.tolist():
        changed = torch.where((positions <= i)[:, None], x, noise)
        if not torch.allclose(model(changed)[:, i], model(x)[:, i], rtol=0, atol=1e-6):
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
    kept = [torch.where((positions <= i)[:, None], x, other) for i in positions]
    moved = [(model(y) - model(x))[:, i].abs().amax() for i, y in enumerate(kept)]
    found = (torch.stack(moved) > 1e-6).nonzero()
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
        if (got[:, :first] - expected[:, :first]).abs().max() > 1e-6:
            return first - 1
    return -1


def moved_on(tail):
    return tail.neg() * 1.7 + 0.9


def in_feature(tail, k):
    changed = tail.clone()
    changed[..., k] = moved_on(tail[..., k])
    return changed


def probe(model, x, first=1, last=99, change=moved_on, seen=Tensor.abs, tol=1e-6, rtol=0.0,
          copy=torch.clone):  # fmt: skip
    """All positions i at which the output moves when ``x[:, i + first : i + last]`` is changed."""
    before, found = model(x), []
    for i in range(x.size(1) - 1):
        changed = copy(x)
        changed[:, i + first : i + last] = change(x[:, i + first : i + last])
        moved = seen((model(changed) - before)[:, i])
        if not (moved <= tol + rtol * before[:, i].abs().max()).all():
            found.append(i)
    return found


def smallest(found):
    return min(found, default=-1)


def probing(pick=smallest, **changed):
    return lambda model, x: pick(probe(model, x, **changed))


def moved_by(model, x, j):
    """What moves before position j when it alone is changed."""
    changed = x.clone()
    changed[:, j] = moved_on(x[:, j])
    moved = (model(changed) - model(x))[:, :j].abs().amax((0, 2)) > 1e-6
    return moved.nonzero().flatten().tolist()


def one_by_one(pick):
    return lambda model, x: pick({j: moved_by(model, x, j) for j in range(1, x.size(1))})


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("Only the next position is changed; a leak can read from further ahead.", probing(last=2)),
    ("Only the last position is changed; that finds only the leaks that reach to the end.",
     one_by_one(lambda found: smallest(found[max(found)]))),
    ("Position i is changed, or later ones are compared, so every model seems to leak; change only what "
     "comes after i and look only at i.", probing(first=0)),
    ("Position 0 is never looked at.", probing(lambda found: smallest(set(found) - {0}))),
    ("The last but one position is never looked at; it can read the last one.",
     lambda model, x: smallest(set(probe(model, x)) - {x.size(1) - 2})),
    ("That is the last position that leaks; the smallest is wanted.", probing(partial(max, default=-1))),
    ("That counts the leaking positions; return the smallest of them.", probing(lambda found: len(found) or -1)),
    ("All leaking positions are returned; return the smallest.", probing(list)),
    ("Positions are counted from 1; count them from 0.", probing(lambda found: min(found) + 1 if found else -1)),
    ("A causal model gives None; return -1.", probing(partial(min, default=None))),
    ("A causal model gives the length of the sequence; return -1.",
     lambda model, x: min(probe(model, x), default=x.size(1))),
    ("That says whether there is a leak; return where the first one is, or -1.", probing(bool)),
    ("That is the position that was read; return the one that reads, the output that moved.",
     one_by_one(lambda found: next((j for j, moved in found.items() if moved), -1))),
    ("The first leak found is returned, not the one with the smallest i: go through i from 0 upwards.",
     one_by_one(lambda found: next((moved[0] for moved in found.values() if moved), -1))),
    ("Later positions are changed one by one, from the last backwards, and the first leak found is "
     "returned; the smallest i of all is wanted.",
     one_by_one(lambda found: next((found[j][0] for j in sorted(found, reverse=True) if found[j]), -1))),
    ("The later numbers are only multiplied, by -1 or by 2; a leak that reads only their squares, or only "
     "their ratios, does not notice. Use random numbers.", probing(change=torch.neg)),
    ("The same number is added everywhere, and a leak that reads a difference does not notice; use random "
     "numbers.", probing(change=lambda tail: tail + 1.0)),
    ("The same number is added to all features of a position, and a leak behind a LayerNorm does not notice; "
     "use random numbers.", probing(change=lambda tail: tail + torch.arange(tail.size(1))[:, None] + 1)),
    ("The later positions only change places; a sum over them does not notice.",
     probing(change=lambda tail: tail.roll(1, dims=1))),
    ("The features of a position only change places, and a leak that reads their sum does not notice; use "
     "random numbers.", probing(change=lambda tail: tail.roll(1, dims=2))),
    ("The samples only change places, and one sample alone stays as it is; use random numbers.",
     probing(change=lambda tail: tail.roll(1, dims=0))),
    ("NaN is no test value: a weight of 0 times NaN is NaN, so hidden values seem to leak.",
     probing(change=lambda tail: tail * math.nan)),
    *(("Without a tolerance rounding counts as a leak; a leak moves more than 1e-6.", probing(tol=tol))
      for tol in (0, 1e-7)),
    *(("The tolerance is too large: a faint leak is a leak. Rounding errors are below 1e-6.", probing(tol=tol))
      for tol in (5e-6, 1e-4)),
    ("The tolerance grows with the output (as in allclose, whose rtol is 1e-5), and a faint leak in a large "
     "output goes unseen; compare with 1e-6 alone.", probing(rtol=1e-5)),
    ("Without abs() a leak that only lowers the output goes unseen.", probing(seen=lambda moved: moved)),
    ("Without abs() a leak that only raises the output goes unseen in before - after.", probing(seen=torch.neg)),
    *(("In a mean or sum ups and downs cancel; take abs() of each number, then the maximum.", probing(seen=seen))
      for seen in (lambda moved: moved.mean().abs(), lambda moved: moved.sum().abs())),
    ("In the mean a faint leak in one number goes under; take the maximum.",
     probing(seen=lambda moved: moved.abs().mean())),
    *((f"Only the {which} sample is looked at, or changed; a leak can be in any other.",
       probing(seen=lambda moved, k=k: moved[k].abs())) for which, k in (("first", 0), ("last", -1))),
    *((f"Only the {which} feature of the output is looked at.",
       probing(seen=lambda moved, k=k: moved[:, k].abs())) for which, k in (("first", 0), ("last", -1))),
    *((f"Only the {which} feature of x is changed; a leak can read any other.",
       probing(change=partial(in_feature, k=k))) for which, k in (("first", 0), ("last", -1))),
    ("x itself is changed, so later comparisons see it; use x.clone().", probing(copy=lambda x: x)),
    ("The answers are right, but x is changed on the way; work on x.clone().",
     lambda model, x: (smallest(probe(model, x)), x[:, 1:].zero_())[0]),
    ("x is cut after position i; the models are made for the full length.",
     lambda model, x: torch.stack([model(x[:, : i + 1])[:, i] for i in range(x.size(1))])),
    ("The differences are kept in a tensor like x; the output has a width of its own, e.",
     lambda model, x: smallest(probe(model, x, seen=lambda moved: torch.zeros_like(x[:, 0]).add_(moved).abs()))),
))  # fmt: skip

EXERCISE = Exercise(
    name="find_the_leak", answer="first_leak", title="Find the leak", kind="Measure",
    points=2, difficulty=3, minutes=15,
    needs="section 'The leak you cannot see in the loss' of chapter 2",
    judge=FirstLeaks(), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "For one position i: put random numbers at all positions after i. The output at i must stay.",
        "Work on a copy: changed = x.clone(); changed[:, i + 1 :] = torch.randn_like(...).",
        "Return the first i for which (model(changed) - model(x))[:, i].abs().max() > 1e-6, else -1.",
    ),
)  # fmt: skip
