"""Exercise residual_block: a norm and a residual around any part, before or after."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.compare import difference
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.symptoms import symptom


def read_before(y):
    """A part that mixes positions, as attention does."""
    return torch.tanh(y).cumsum(1) + y.roll(1, 2) ** 2


def bend(y):
    """A part that works on each position by itself."""
    return torch.relu(y + y.flip(2)) - 0.5 * y


def norm(x, weight, bias, eps=1e-5, dims=-1):
    centred = x - x.mean(dims, keepdim=True)
    variance = centred.square().mean(dims, keepdim=True)
    return centred / torch.sqrt(variance + eps) * weight + bias


def residual_block(x, part, weight, bias, norm_first, norm=norm, pre=None, post=None):
    """The definition; a mistake has another norm, or another ``pre`` or ``post``."""
    pre = pre or (lambda x, part, norm: x + part(norm(x)))
    post = post or (lambda x, part, norm: norm(x + part(x)))
    return (pre if norm_first else post)(x, part, lambda y: norm(y, weight, bias))


NEARLY, SAME = "vectors that are nearly constant", "vectors whose numbers are all the same"


@dataclass(frozen=True)
class Blocks(Calls):
    """`Calls` that tell apart a wrong norm, a wrong sum and a wrong branch."""

    def notice(self, expected, seen, seed: int) -> str:
        if says := symptom(expected, seen):
            return says
        found = {what.removesuffix(", output") for what in expected if what.endswith(", output")}
        wrong = {x for x in found if difference(expected[f"{x}, output"], seen.get(f"{x}, output"))}
        if wrong and all(x.startswith(NEARLY) for x in wrong):
            return "Only vectors that are nearly constant come out wrong: look at the 1e-5. It is added to the variance, under the root."
        if f"{SAME}, norm first" in wrong:
            return "With part = torch.zeros_like and norm_first=True the block must return x, and does not."
        for branch, value in ("first", True), ("last", False):
            if wrong and all(x.endswith(f"norm {branch}") for x in wrong):
                return f"Only with norm_first={value} are results wrong; the other branch is right."
        if f"{SAME}, norm last" in wrong:
            return "A vector whose numbers are all the same becomes bias by the norm, and here it does not: look at the norm."
        return "The sum is right where the part adds nothing, and so is the norm of a vector whose numbers are all the same; look at the rest of the norm."


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for first in (True, False):
        for what, shape, part, size in (
            (
                "2 samples, 3 positions, width 6, a part that mixes positions",
                (2, 3, 6),
                read_before,
                1.0,
            ),
            ("1 sample, 4 positions, width 5, a part for each position", (1, 4, 5), bend, 3.0),
            (NEARLY, (2, 2, 4), lambda y: 0.5 * y, 1e-3),
            (SAME, (1, 2, 3), torch.zeros_like, 0.0),
        ):
            x = size * torch.randn(shape, generator=g) + 0.7 * torch.randn(
                *shape[:2], 1, generator=g
            )
            weight, bias = (torch.randn(shape[-1], generator=g) for _ in range(2))
            gradients = size >= 1  # a norm of nearly nothing has gradients that are nearly anything
            label = f"{what}, norm {'first' if first else 'last'}"
            found.append(Case(label, (x, part, weight, bias, first), gradients=gradients))
    return found


ACCEPTED = Accepted(definition=residual_block)
ACCEPTED["in_double"] = lambda x, part, weight, bias, first: residual_block(
    x.double(), part, weight.double(), bias.double(), first
)


@ACCEPTED.add
def layer_norm_of_torch(x, part, weight, bias, norm_first):
    if norm_first:
        return x + part(F.layer_norm(x, x.shape[-1:], weight, bias))
    return F.layer_norm(x + part(x), (x.size(-1),), weight, bias)


@ACCEPTED.add
def variance_of_torch(x, part, weight, bias, norm_first):
    def normed(y):
        variance, mean = torch.var_mean(y, dim=2, correction=0, keepdim=True)
        return torch.addcmul(bias, (y - mean) * (variance + 1e-5).rsqrt(), weight)

    y = part(normed(x) if norm_first else x) + x
    return y if norm_first else normed(y)


@ACCEPTED.add
def position_by_position(x, part, weight, bias, norm_first):
    def normed(y):
        rows = [
            (r - r.mean()) / (((r - r.mean()) ** 2).mean() + 1e-5) ** 0.5 for r in y.flatten(0, 1)
        ]
        return torch.stack(rows).view(y.shape) * weight + bias

    return x + part(normed(x)) if norm_first else normed(x + part(x))


def changed(**steps):
    return partial(residual_block, **steps)


def over(eps=0.0, **options):
    """A norm whose denominator is another."""

    def other(x, weight, bias):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (x.std(-1, keepdim=True, **options) + eps) * weight + bias

    return other


def flipped(x, part, weight, bias, norm_first):
    return residual_block(x, part, weight, bias, not norm_first)


def in_place(x, part, weight, bias, norm_first):
    y = residual_block(x, part, weight, bias, norm_first)
    return x.copy_(y.detach())


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("The residual is missing: what the part returns is added to x.",
     changed(pre=lambda x, part, norm: part(norm(x)), post=lambda x, part, norm: norm(part(x)))),
    ("The residual is missing where the norm comes last: norm(x + part(x)).",
     changed(post=lambda x, part, norm: norm(part(x)))),
    ("norm_first is not looked at: the norm always comes first.", changed(post=lambda x, part, norm: x + part(norm(x)))),
    ("norm_first is not looked at: the norm always comes last.", changed(pre=lambda x, part, norm: norm(x + part(x)))),
    ("norm_first is read the other way round.", flipped),
    ("The norm is missing.", changed(norm=lambda x, weight, bias: x)),
    ("Norm and residual are both missing: only the part is left.",
     changed(pre=lambda x, part, norm: part(x), post=lambda x, part, norm: part(x))),
    ("The norm comes twice, before the part and after the sum; norm_first says which of the two.",
     changed(pre=lambda x, part, norm: norm(x + part(norm(x))), post=lambda x, part, norm: norm(x + part(norm(x))))),
    ("The residual carries the normed x; with the norm first, x itself is added.",
     changed(pre=lambda x, part, norm: norm(x) + part(norm(x)))),
    ("Only the part's result is normed; the norm comes after the sum.",
     changed(post=lambda x, part, norm: x + norm(part(x)))),
    ("With the norm first, it is the part's result that is normed; norm what the part reads.",
     changed(pre=lambda x, part, norm: x + norm(part(x)))),
    ("The norm runs over the positions; each vector is normed by itself, over the last axis.",
     changed(norm=partial(norm, dims=1))),
    ("The norm runs over positions and width together; each vector is normed by itself.",
     changed(norm=partial(norm, dims=(1, 2)))),
    ("The variance is divided by width - 1; divide by width (correction=0).",
     changed(norm=lambda x, weight, bias: (x - x.mean(-1, keepdim=True))
             / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) * weight + bias)),
    ("1e-5 is added to the standard deviation; it belongs under the root, to the variance.",
     changed(norm=over(1e-5, correction=0))),
    *((f"{eps:g} is added to the variance; it is 1e-5.", changed(norm=partial(norm, eps=eps)))
      for eps in (1e-8, 1e-6, 1e-4, 1e-3)),
    ("The mean and the variance are those of all samples and positions, as in a batch norm; each vector is normed by itself.",
     changed(norm=partial(norm, dims=(0, 1)))),
    ("The norm runs over the samples; each vector is normed by itself, over the last axis.",
     changed(norm=partial(norm, dims=0))),
    ("weight and bias of the norm are exchanged.", changed(norm=lambda x, weight, bias: norm(x, bias, weight))),
    ("The vectors are not divided by anything; divide by the root of the variance.",
     changed(norm=lambda x, weight, bias: (x - x.mean(-1, keepdim=True)) * weight + bias)),
    ("The vectors are divided by their lengths; take out the mean and divide by the root of the variance.",
     changed(norm=lambda x, weight, bias: F.normalize(x, dim=-1) * weight + bias)),
    ("The part's result is subtracted; it is added.",
     changed(pre=lambda x, part, norm: x - part(norm(x)), post=lambda x, part, norm: norm(x - part(x)))),
    ("1e-5 is missing under the root: a vector whose numbers are all the same gives NaN.",
     changed(norm=partial(norm, eps=0.0))),
    ("The vectors are divided by their variance; divide by its square root.",
     changed(norm=lambda x, weight, bias: (x - x.mean(-1, keepdim=True))
             / (x.var(-1, correction=0, keepdim=True) + 1e-5) * weight + bias)),
    ("The mean is not taken out; that would be RMSNorm.",
     changed(norm=lambda x, weight, bias: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight + bias)),
    ("weight and bias of the norm are not used.", changed(norm=lambda x, weight, bias: norm(x, 1.0, 0.0))),
    ("The bias of the norm is not added.", changed(norm=lambda x, weight, bias: norm(x, weight, 0.0))),
    ("The weight of the norm is not used.", changed(norm=lambda x, weight, bias: norm(x, 1.0, bias))),
    ("The bias is added before the weight multiplies; first weight, then bias.",
     changed(norm=lambda x, weight, bias: (norm(x, 1.0, 0.0) + bias) * weight)),
    ("The part is applied twice.", changed(pre=lambda x, part, norm: x + part(part(norm(x))),
                                           post=lambda x, part, norm: norm(x + part(part(x))))),
    ("x is changed in place; return a new tensor.", in_place),
    ("No gradient flows back through the residual: it is detached.",
     changed(pre=lambda x, part, norm: x.detach() + part(norm(x)), post=lambda x, part, norm: norm(x.detach() + part(x)))),
    ("No gradient flows back through the part: its result is detached.",
     changed(pre=lambda x, part, norm: x + part(norm(x)).detach(), post=lambda x, part, norm: norm(x + part(x).detach()))),
))  # fmt: skip

EXERCISE = Exercise(
    name="residual_block", judge=Blocks(residual_block, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
