"""Exercise term_scale: a score of one, two or three terms, always of the same size."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded


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
    ("large scores, all three terms, head_dim 4", (1, 2, 5, 6), 4, "111", 300),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for number, (what, size, d, on, loud) in enumerate(CALLS):
        every = [loud * x * d**0.5 for x in normal(g, size, size, size)]
        terms = [x if here == "1" else None for x, here in zip(every, on, strict=True)]
        if loud > 1:  # rows far below and above the others, of which no sum is rounded
            for row, far in ((0, -(2.0**25)), (1, 2.0**25)):
                terms[0][..., row, :] = far + 4096.0 * torch.arange(size[-1])
                terms[1][..., row, :] = terms[2][..., row, :] = 0.0
        if "about 60" in what:  # float16 has steps of 1/32 there
            terms[1] += 60 * d**0.5
        if "zeros" in what:
            terms[2] = torch.zeros(size)
        found.append(Case(what, (*terms, d), gradients=number < 3))
    return found


@Dataflow
def right(c2c, c2p, p2c, head_dim):
    terms = [term for term in (c2c, c2p, p2c) if term is not None]
    sums = yield "the sums of the terms", sum(terms)
    scores = yield "the scores", sums / math.sqrt(head_dim * len(terms))
    return scores.softmax(-1)


EXERCISE = Exercise(
    name="term_scale",
    answer="term_weights",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n m",),
)
