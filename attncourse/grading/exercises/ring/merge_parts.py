"""Exercise merge_parts: results over any number of parts of the keys become the result over all keys."""

import math
from functools import partial, reduce

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.told import Several

NONE = -math.inf


def definition(outputs, lses):
    """Row by row: the parts that have seen a key, weighted by exp(lse - the largest of them)."""
    merged, lse = torch.zeros_like(outputs[0]), torch.full_like(lses[0], NONE)
    for row in torch.cartesian_prod(*(torch.arange(k) for k in lses.shape[1:])).tolist():
        at, seen = tuple(row), [p for p in range(len(lses)) if lses[(p, *row)] != NONE]
        if seen:
            top = max(lses[(p, *row)] for p in seen)
            each = [torch.exp(lses[(p, *row)] - top) for p in seen]
            parts = zip(each, seen, strict=True)
            merged[at] = sum(w * outputs[(p, *row)] for w, p in parts) / sum(each)
            lse[at] = top + torch.log(sum(each))
    return merged, lse


CALLS = (  # what is special; parts, b h n e; a factor on lse, and what is added; share of empty rows
    ("3 parts, 2 samples, 4 heads, 5 queries, values 6 wide", (3, 2, 4, 5, 6), 2, 0, 0),
    ("as many parts as samples and heads", (3, 3, 3, 4, 5), 2, 0, 0),
    ("1 part", (1, 2, 3, 4, 5), 2, 0, 0),
    ("8 parts, many rows empty", (8, 2, 3, 5, 4), 2, 0, 0.4),
    ("2 parts, half of the rows empty", (2, 3, 4, 7, 5), 2, 0, 0.5),
    ("lse about 1000", (4, 2, 3, 5, 2), 2, 1000, 0),
    ("lse about -1000, some rows empty", (4, 2, 3, 5, 3), 2, -1000, 0.3),
    ("outputs near 100,000", (3, 1, 2, 4, 3), 2, 0, 0),
    ("lse far apart from row to row", (3, 2, 3, 5, 4), 300, 0, 0),
)


def cases(seed: int) -> list[Case]:
    """An empty row of a part has lse minus infinity, and its output was never written: here it is infinite."""
    g, found = seeded(seed), []
    for what, (p, b, h, n, e), loud, add, empty in CALLS:
        outputs, shared, own = (
            torch.randn(shape, generator=g) for shape in ((p, b, h, n, e), (b, h, n), (p, b, h, n))
        )
        lses = (loud if loud > 2 else 0) * shared + 2 * own + add
        hidden = torch.rand(lses.shape, generator=g) < empty
        if empty:  # one row is empty in all parts, one in none
            hidden[..., 0], hidden[..., 1] = True, False
        outputs *= 1e5 if "100,000" in what else 1  # float16 has no such numbers
        lses = lses.masked_fill(hidden, NONE)
        outputs = outputs.masked_fill(hidden[..., None], math.inf)
        found.append(
            Case(
                what,
                (outputs, lses),
                gradients=not empty and loud == 2 and not add and "100" not in what,
            )
        )
    return found


def clean(outputs, lses):
    return outputs.masked_fill((lses == NONE)[..., None], 0.0)


def shift(lses):
    top = lses.amax(0)
    return top.masked_fill(top == NONE, 0.0)


def shares(lses):
    """exp(lse) of a part, over that of all parts; 0 where no part has seen anything."""
    weights = torch.exp(lses - shift(lses))
    total = weights.sum(0)
    return weights / total.masked_fill(total == 0, 1.0)


def total(lses):
    return shift(lses) + torch.exp(lses - shift(lses)).sum(0).log()


def merge(outputs, lses, clean=clean, weigh=shares, lse=total, finish=lambda o, lse: (o, lse)):
    """A right answer in steps; a mistake replaces one of them."""
    weights = weigh(lses)
    return finish((weights[..., None] * clean(outputs, lses)).sum(0), lse(lses))


ACCEPTED = Accepted(steps=merge)


@ACCEPTED.add
def softmax_over_the_parts(outputs, lses):
    weights = torch.softmax(lses, dim=0).nan_to_num(0.0)
    mixed = torch.where(weights[..., None] > 0, outputs, 0.0)
    return torch.einsum("pbhn,pbhne->bhne", weights, mixed), torch.logsumexp(lses, dim=0)


@ACCEPTED.add
def one_after_the_other(outputs, lses):
    def pair(a, b):
        lse = torch.logaddexp(a[1], b[1])
        safe = torch.where(lse == NONE, 0.0, lse)
        return sum(torch.exp(x[1] - safe)[..., None] * x[0] for x in (a, b)), lse

    return reduce(pair, zip(clean(outputs, lses), lses, strict=True))


@ACCEPTED.add
def last_part_first_in_float64(outputs, lses):
    outputs, lses = outputs.double().nan_to_num(0.0, posinf=0.0), lses.double()
    top = lses.max(dim=0).values
    top = torch.where(top.isinf(), torch.zeros_like(top), top)
    mixed, count = torch.zeros_like(outputs[0]), torch.zeros_like(top)
    for part, lse in reversed(list(zip(outputs, lses, strict=True))):
        weight = torch.exp(lse - top)
        mixed, count = mixed + weight.unsqueeze(-1) * part, count + weight
    return mixed / count.clamp(min=1e-300).unsqueeze(-1), top + count.log()


@ACCEPTED.add
def pairs_in_a_tree(outputs, lses):
    if len(lses) == 1:
        return clean(outputs, lses)[0], lses[0]
    even, odd = (pairs_in_a_tree(outputs[k::2], lses[k::2]) for k in range(2))
    return merge(*map(torch.stack, zip(even, odd, strict=True)))


def half_and_half(lses):
    """Each new part counts as much as all before it."""
    weights = [0.5 ** (len(lses) - max(p, 1)) for p in range(len(lses))]
    return torch.tensor(weights)[:, None, None, None] + 0 * shares(lses)


def last_lse(lses):
    """Merged one after the other, without the lse of what was merged before."""
    weights = torch.ones_like(lses)
    for p in range(1, len(lses)):
        pair = shares(lses[p - 1 : p + 1])
        weights[:p] *= pair[0]
        weights[p] = pair[1]
    return weights if len(lses) > 1 else shares(lses)


MISTAKES = Mistakes(Mistake(says, partial(merge, **steps)) for says, steps in (
    ("All parts count the same; a part counts as much as exp(lse) says.",
     {"weigh": lambda lses: torch.ones_like(lses) / len(lses)}),
    ("The outputs are added up; each is a mean already, so their shares must add up to 1.",
     {"weigh": torch.ones_like}),
    ("The shares are lse over the sum of all lse; they go with exp(lse).", {"weigh": lambda lses: lses / lses.sum(0)}),
    ("exp(lse) overflows, or is 0 in all parts; subtract the largest lse of the row first.",
     {"weigh": lambda lses: lses.exp() / lses.exp().sum(0)}),
    ("exp(lse) is not divided by its sum over the parts.", {"weigh": lambda lses: torch.exp(lses - shift(lses))}),
    ("The largest of all lse is subtracted, and rows far below it vanish; subtract the largest of the row.",
     {"weigh": lambda lses: torch.exp(lses - lses.max()) / torch.exp(lses - lses.max()).sum(0)}),
    ("An empty part gives NaN: its share is 0, but its output was never written, and 0 times infinity is NaN.",
     {"clean": lambda outputs, lses: outputs}),
    ("A row that is empty in every part gives NaN; its output is 0.", {"weigh": lambda lses: lses.softmax(0)}),
    ("An empty part counts as if its lse were 0; its share is 0.",
     {"weigh": lambda lses: shares(lses.masked_fill(lses == NONE, 0.0))}),
    ("The softmax runs over the queries; it runs over the parts.",
     {"weigh": lambda lses: lses.softmax(-1).nan_to_num(0.0)}),
    ("The sign of lse is turned: the part that has seen most counts least.",
     {"weigh": lambda lses: shares(torch.where(lses == NONE, lses, -lses))}),
    ("The part with the largest lse takes all; the others count, too.",
     {"weigh": lambda lses: ((lses == lses.amax(0)) & (lses > NONE)).float()}),
    ("Each part that comes counts as much as all before it together; it counts as exp(lse) says.",
     {"weigh": half_and_half}),
    ("Two at a time, but the lse of what was merged before is forgotten; merge the lse as well.", {"weigh": last_lse}),
    ("Powers of 2 are taken of lse, which is a natural logarithm.",
     {"weigh": lambda lses: shares(lses * math.log(2))}),
    ("The lse is the largest one; it is the logarithm of the sum of all exp(lse).", {"lse": lambda lses: lses.amax(0)}),
    ("The lse are added up; add up exp(lse), then take the logarithm.", {"lse": lambda lses: lses.sum(0)}),
    ("The lse is the logarithm of a mean; it is that of the sum.",
     {"lse": lambda lses: total(lses) - math.log(len(lses))}),
    ("The mean of the lse is returned; it is the logarithm of the sum of all exp(lse).",
     {"lse": lambda lses: lses.mean(0)}),
    ("The lse overflows or is minus infinity; subtract the largest of the row before exp, and add it again.",
     {"lse": lambda lses: lses.exp().sum(0).log()}),
    ("The lse of a row that is empty in every part is NaN or a number; it is minus infinity.",
     {"lse": lambda lses: total(lses).masked_fill(total(lses) == NONE, math.nan)}),
    ("The lse of a row that is empty in every part is 0; it is minus infinity.",
     {"lse": lambda lses: total(lses).masked_fill(total(lses) == NONE, 0.0)}),
    ("The lse is in powers of 2; it is a natural logarithm.", {"lse": lambda lses: total(lses) / math.log(2)}),
    ("Only the output is returned; return (output, lse).", {"finish": lambda o, lse: o}),
    ("The order is (lse, output); return (output, lse).", {"finish": lambda o, lse: (lse, o)}),
    ("No gradient flows back: the result is detached or made inside no_grad.",
     {"finish": lambda o, lse: (o.detach(), lse.detach())}),
    ("No gradient flows through the shares: they are detached.", {"weigh": lambda lses: shares(lses).detach()}),
    ("The outputs of empty parts are changed in place; work on a new tensor.",
     {"clean": lambda outputs, lses: outputs.masked_fill_((lses == NONE)[..., None], 0.0)}),
))  # fmt: skip

EXERCISE = Exercise(
    name="merge_parts",
    judge=Several(definition, cases, names=("the output", "the lse")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
