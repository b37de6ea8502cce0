"""Exercise term_scale: a score of one, two or three terms, always of the same size."""

import math

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.disentangled._terms import (
    Factors,
    Terms,
    added_in_place,
    each_alone,
    only,
    there,
    weighted,
)
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import mistakes_of, softmaxes
from attncourse.grading.observe import Case
from attncourse.grading.slips import alone, clamped


def definition(c2c, c2p, p2c, head_dim):
    """Each term that is there is divided by the root of head_dim and of their number."""
    terms = [x for x in (c2c, c2p, p2c) if x is not None]
    scores = torch.zeros_like(terms[0])
    for term in terms:
        scores = scores + term / math.sqrt(head_dim * len(terms))
    return torch.softmax(scores, dim=-1)


CALLS = (  # what is special; b h n m, head_dim, which terms are there, how loud
    ("all three terms, head_dim 6, 4 queries, 7 keys", (2, 5, 4, 7), 6, "111", 1),
    ("p2c switched off, head_dim 10", (1, 2, 5, 3), 10, "110", 1),
    ("c2p switched off, head_dim 5", (2, 1, 3, 6), 5, "101", 1),
    ("c2c switched off, head_dim 8", (1, 4, 5, 5), 8, "011", 1),
    ("c2c alone, head_dim 7", (3, 2, 2, 4), 7, "100", 1),
    ("c2p alone, head_dim 12, scores about 60", (2, 2, 7, 4), 12, "010", 1),
    ("p2c alone, head_dim 3", (1, 3, 4, 8), 3, "001", 1),
    ("p2c there, but all zeros, head_dim 9", (2, 2, 3, 5), 9, "110", 1),
    ("c2p alone, and all zeros, head_dim 5", (2, 3, 2, 4), 5, "010", 1),
    ("large scores, all three terms, head_dim 4", (1, 2, 5, 6), 4, "111", 300),
    ("1 key, head_dim 11", (2, 3, 4, 1), 11, "110", 1),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for number, (what, size, d, on, loud) in enumerate(CALLS):
        every = [loud * x * d**0.5 for x in normal(g, size, size, size)]
        terms = [x if here == "1" else None for x, here in zip(every, on, strict=True)]
        if (
            loud > 1
        ):  # one row is far below the others, one far above, and no sum of them is rounded
            for row, far in ((0, -(2.0**25)), (1, 2.0**25)):
                terms[0][..., row, :] = far + 4096.0 * torch.arange(size[-1])
                terms[1][..., row, :] = terms[2][..., row, :] = 0.0
        if "about 60" in what:  # float16 has steps of 1/32 there
            terms[1] += 60 * d**0.5
        if "zeros" in what:
            terms[2 if terms[2] is None and terms[0] is not None else 1] = torch.zeros(size)
        found.append(Case(what, (*terms, d), gradients=number < 3))
    return found


RIGHT = Terms()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def one_if_after_the_other(c2c, c2p, p2c, head_dim):
    scores, count = 0, 0
    if c2c is not None:
        scores, count = scores + c2c, count + 1
    if c2p is not None:
        scores, count = scores + c2p, count + 1
    if p2c is not None:
        scores, count = scores + p2c, count + 1
    return torch.nn.functional.softmax(scores / (head_dim * count) ** 0.5, dim=-1)


@ACCEPTED.add
def stacked(c2c, c2p, p2c, head_dim):
    terms = torch.stack([x for x in (c2c, c2p, p2c) if isinstance(x, torch.Tensor)])
    return (terms.sum(0) / math.sqrt(head_dim) / math.sqrt(len(terms))).softmax(dim=3)


@ACCEPTED.add
def exponentials_by_hand(c2c, c2p, p2c, head_dim):
    terms = [x for x in (c2c, c2p, p2c) if x is not None]
    scores = torch.stack(terms, -1).mean(-1) * math.sqrt(len(terms) / head_dim)
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


@ACCEPTED.add
def products_of_exponentials(c2c, c2p, p2c, head_dim):
    logs = [x.double() for x in (c2c, c2p, p2c) if x is not None]
    scale = (head_dim * (3 - [c2c is None, c2p is None, p2c is None].count(True))) ** -0.5
    total = sum(scale * x for x in logs)
    return (total - total.logsumexp(-1, keepdim=True)).exp()


@ACCEPTED.add
def zeros_for_none(c2c, c2p, p2c, head_dim):
    found = next(x for x in (c2c, c2p, p2c) if x is not None)
    on = sum(x is not None for x in (c2c, c2p, p2c))
    a, b, c = (torch.zeros_like(found) if x is None else x for x in (c2c, c2p, p2c))
    return ((a + b + c) * (1 / (head_dim * on)) ** 0.5).softmax(-1)


MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in (
    ("Three terms are counted, whatever is switched off; count those that are there.", {"count": lambda terms: 3}),
    ("Two terms are counted, whatever is switched off; count those that are there.", {"count": lambda terms: 2}),
    ("The scores are divided by sqrt(head_dim) alone, as if there were one term; by sqrt(head_dim * terms).", {"count": lambda terms: 1}),
    ("c2c is counted even where it is switched off; count those that are there.",
     {"count": lambda terms: 1 + len(there(terms[1:]))}),
    ("Only the terms of positions are counted; c2c counts, too.", {"count": lambda terms: max(1, len(there(terms[1:])))}),
    ("One term too many is counted.", {"count": lambda terms: 1 + len(there(terms))}),
    ("The terms that are switched off are counted; count those that are there.",
     {"count": lambda terms: max(1, 3 - len(there(terms)))}),
    ("A term whose scores are all 0 is not counted; it is there, and counts.",
     {"count": lambda terms: sum(bool(x.any()) for x in there(terms))}),
    ("The scores are divided by sqrt(head_dim) and by the number of terms (which is what their mean does, too); only its root belongs there: "
     "sqrt(head_dim * terms).", {"scale": lambda d, count: d**-0.5 / count}),
    ("The scores are divided by head_dim * terms; its square root is missing.", {"scale": lambda d, count: 1 / (d * count)}),
    ("The scores are divided by head_dim * sqrt(terms); it is sqrt(head_dim * terms).", {"scale": lambda d, count: 1 / (d * count**0.5)}),
    ("The scores are multiplied by sqrt(head_dim * terms); divide by it.", {"scale": lambda d, count: (d * count) ** 0.5}),
    ("The scores are divided by sqrt(head_dim / terms): more terms make a larger sum, so divide by more.",
     {"scale": lambda d, count: (count / d) ** 0.5}),
    ("The scores are divided by sqrt(head_dim + terms); it is head_dim * terms.", {"scale": lambda d, count: (d + count) ** -0.5}),
    ("The scores are divided by sqrt(head_dim) + sqrt(terms); it is sqrt(head_dim * terms).",
     {"scale": lambda d, count: 1 / (d**0.5 + count**0.5)}),
    ("The scores are divided by sqrt(terms) alone; by sqrt(head_dim * terms).", {"scale": lambda d, count: count**-0.5}),
    ("The scores are divided by the number of terms alone; by sqrt(head_dim * terms).", {"scale": lambda d, count: 1 / count}),
    ("The scores are not scaled; divide them by sqrt(head_dim * terms).", {"scale": lambda d, count: 1.0}),
    ("The square root of head_dim is rounded down to a whole number, as // and int() do; keep it as it is.",
     {"scale": lambda d, count: 1 / (d**0.5 // 1 * count**0.5)}),
    ("p2c is left out of the sum.", {"join": only(0, 1)}),
    ("c2p is left out of the sum.", {"join": only(0, 2)}),
    ("c2c is left out of the sum.", {"join": only(1, 2)}),
    ("Only c2c is used; add the terms that are there.", {"join": only(0)}),
    ("Only the first term that is there is used; add all of them.", {"join": lambda terms, factor: factor * there(terms)[0]}),
    ("Only the last term that is there is used; add all of them.", {"join": lambda terms, factor: factor * there(terms)[-1]}),
    ("p2c is subtracted; add it.", weighted(lambda k, factor, on: factor * (-1 if k == 2 else 1))),
    ("c2p is subtracted; add it.", weighted(lambda k, factor, on: factor * (-1 if k == 1 else 1))),
    ("Only c2c is divided; the other terms are dot products of the same width, so divide them, too.",
     weighted(lambda k, factor, on: 1.0 if k else factor)),
    ("Only the terms of positions are divided; divide c2c, too.", weighted(lambda k, factor, on: factor if k else 1.0)),
    ("c2c is divided by sqrt(head_dim), and only the other terms by sqrt(head_dim * terms); all by the same.",
     weighted(lambda k, factor, on: factor if k else factor * on**0.5)),
    ("c2c is divided by sqrt(head_dim * terms), the other terms by sqrt(head_dim); all by the same.",
     weighted(lambda k, factor, on: factor * on**0.5 if k else factor)),
    ("The term that is added last escapes the scale: put brackets around the sum.",
     {"join": lambda terms, factor: sum(there(terms)[:-1], start=0.0) + there(terms)[-1] * factor}),
    ("Only the term that is added last is divided: put brackets around the sum.",
     {"join": lambda terms, factor: sum(there(terms)[:-1], start=0.0) * factor + there(terms)[-1]}),
    ("The terms are multiplied; add them.", {"join": lambda terms, factor: math.prod(there(terms)) * factor}),
    ("The largest of the terms is taken for each pair; add them.",
     {"join": lambda terms, factor: torch.stack(there(terms)).amax(0) * factor}),
    ("The sum is divided by its own spread; divide by sqrt(head_dim * terms), whatever the numbers are.",
     {"join": lambda terms, factor: sum(there(terms)) / sum(there(terms)).std()}),
    ("Each term gets a softmax of its own, and the weights are added up; add the scores, then take one softmax.", each_alone(sum)),
    ("Each term gets a softmax of its own, and the weights are averaged; add the scores, then take one softmax.",
     each_alone(lambda x: sum(x) / len(x))),
    ("Each term gets a softmax of its own, and the weights are multiplied; add the scores, then take one softmax.", each_alone(math.prod)),
    ("The scale is applied to the weights, after the softmax; it belongs to the scores.",
     {"scale": lambda d, count: 1.0, "finish": lambda w, terms: w / len(there(terms)) ** 0.5}),
    ("The terms are added to each other in place, so the caller's first one is changed: write a + b, not a += b.", {"join": added_in_place}),
    ("p2c is transposed; its rows are queries already, as those of the other terms.",
     {"join": lambda terms, factor: sum(there((*terms[:2], terms[2] if terms[2] is None else terms[2].mT))) * factor}),
    ("The terms are put side by side, as if they were more keys; add them.", {"join": lambda terms, factor: torch.cat(there(terms), -1) * factor}),
    ("The terms are stacked, and each gets weights of its own; add them.", {"join": lambda terms, factor: torch.stack(there(terms)) * factor}),
    ("Each row of the sum is divided by its own spread; divide by sqrt(head_dim * terms), whatever the numbers are.",
     {"join": lambda terms, factor: sum(there(terms)) / sum(there(terms)).std(-1, keepdim=True, correction=min(1, terms[0].size(-1) - 1) if terms[0] is not None else 1)}),
    ("The largest number of each term is subtracted, and rows far below it vanish; subtract the largest of the row.",
     {"join": lambda terms, factor: sum(x - x.max() for x in there(terms)) * factor, "normalize": lambda s: s.exp() / s.exp().sum(-1, keepdim=True)}),
    ("A score of 0 is hidden as if it were no score.", {"normalize": lambda s: s.masked_fill(s == 0, -math.inf).softmax(-1)}),
    ("The weights are returned in a tuple; return the weights alone.", {"finish": lambda w, terms: (w,)}),
    ("The scores are returned with the weights; return the weights alone.", {"finish": lambda w, terms: (w, sum(there(terms)))}),
    ("The weights are transposed; rows are queries, columns are keys.", {"finish": lambda w, terms: w.mT}),
    ("The weights are averaged over the heads; return those of each.", {"finish": lambda w, terms: w.mean(1)}),
    ("The weights of sample 0 are returned; return all of them.", {"finish": lambda w, terms: w[0]}),
    ("Axes of size 1 are squeezed away; keep all of them.", {"finish": lambda w, terms: w.squeeze()}),
    ("A causal mask is put in; every query reads all keys.",
     {"join": lambda terms, factor: (sum(there(terms)) * factor).masked_fill(torch.ones(there(terms)[0].shape[-2:]).triu(1).bool(), -math.inf)}),
    *(("The weights are rounded.", {"finish": lambda w, terms, k=k: w.round(decimals=k)}) for k in (0, 1, 2, 3)),
    ("The weights are added up along the keys; return them one by one.", {"finish": lambda w, terms: w.cumsum(-1)}),
    ("No gradient flows back: the result is detached or made inside no_grad.", {"finish": lambda w, terms: w.detach()}),
)] + [Mistake("All numbers of all terms are added up; add the terms, torch.stack(terms).sum(0).",
           Terms(join=lambda terms, factor: torch.stack(there(terms)).sum() * factor))] + mistakes_of(RIGHT, softmaxes))  # fmt: skip

MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in (
    ("Negative scores become 0 before the softmax; they enter it as they are.", {"normalize": lambda s: s.relu().softmax(-1)}),
    ("A 1 is added to the sum of the exponentials, so the weights do not sum to 1.",
     {"normalize": lambda s: torch.nn.functional.pad(s, (0, 1)).softmax(-1)[..., :-1]}),
    ("The scores are rounded to float16, which ends at 65504 and keeps 3 digits; stay in float32.",
     {"normalize": lambda s: s.half().softmax(-1).float()}),
    ("The weights are powers of 2; a softmax has powers of e.", {"normalize": lambda s: (s * math.log(2)).softmax(-1)}),
))  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, clamped))

EXERCISE = Exercise(
    name="term_scale",
    answer="term_weights",
    judge=Factors(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
