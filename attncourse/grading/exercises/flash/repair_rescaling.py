"""Exercise repair_rescaling: an accumulator under an old maximum, right as long as the largest score comes first."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch

from attncourse import spec
from attncourse.grading.compare import plain
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.flash._online import Online, rescalings
from attncourse.grading.inputs import alternating, far_below_zero, sized_cases
from attncourse.grading.told import Several


def definition(query, key, value, size):
    """The attention of the course, and the maxima of its scores, block by block."""
    output = spec.scaled_dot_product_attention(query, key, value)[0]
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    grown = torch.ones(scores.shape[:3], dtype=torch.int64)
    for at in range(size, scores.size(3), size):
        grown += scores[..., at : at + size].amax(-1) > scores[..., :at].amax(-1)
    return output, grown


def far_below(query, key):
    """Make all scores about -1500 (head_dim 4)."""
    query[..., 0], key[..., 0] = -60.0, 50.0


CALLS = (  # what is special, b h n m d e, how loud, keys in a block
    ("2 samples, 3 heads, 4 queries, 9 keys in blocks of 2", (2, 3, 4, 9, 6, 5), 1, 2),
    ("7 keys in blocks of 1", (2, 2, 3, 7, 4, 6), 1, 1),
    ("3 keys in one block", (3, 2, 4, 3, 5, 4), 1, 8),
    ("large scores", (1, 2, 3, 11, 4, 5), 60, 3),
    ("scores near 768 and -768", (1, 2, 5, 6, 4, 3), alternating, 2),
    ("scores far below zero", (1, 2, 5, 7, 4, 3), far_below, 3),
    ("scores below -2**27", (1, 2, 5, 7, 16, 3), far_below_zero, 3),
    ("1 query, 12 keys in blocks of 4", (2, 3, 1, 12, 3, 2), 1, 4),
)  # fmt: skip
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b h m d, b h m e", calls=CALLS)


def blocks(query, key, value, size, scale=None):
    """The scores and the values of each block."""
    scale = query.size(-1) ** -0.5 if scale is None else scale
    return [
        (query @ k.mT * scale, v)
        for k, v in zip(key.split(size, 2), value.split(size, 2), strict=True)
    ]


class Counted(Several):
    """A count may be of any dtype."""

    def observe(self, answer, seed):
        for what, found in super().observe(answer, seed):
            several = isinstance(found, tuple) and all(map(plain, found))
            yield what, tuple(x.double() for x in found) if several else found


@dataclass(frozen=True)
class Stream(Online):
    """Attention block by block, which counts."""

    cut: Callable = blocks
    divide: Callable = lambda mixed, total: mixed / total[..., None]
    count: Callable = lambda new, old: new > old
    answer: Callable = lambda output, grown: (output, grown)

    def __call__(self, query, key, value, size):
        states = list(self.states(self.cut(query, key, value, size)))
        maxima, (*_, (_, total, mixed)) = [maximum.detach() for maximum, *_ in states], states
        grown = sum(self.count(new, old).float() for old, new in pairwise(maxima))
        return self.answer(self.divide(mixed, total), grown)


RIGHT = Stream()
ACCEPTED = Accepted(steps=RIGHT, below_any_score=Stream(start=-1e30))


@ACCEPTED.add
def the_past_as_one_more_key(query, key, value, size):
    """Output and log-sum-exp so far, merged with those of the next block."""
    grown, top, output, lse = 0, -math.inf, 0.0, torch.tensor(-math.inf)
    for k, v in zip(key.split(size, dim=-2), value.split(size, dim=-2), strict=True):
        scores = torch.einsum("bhid,bhjd->bhij", query, k) * query.shape[-1] ** -0.5
        both = torch.logaddexp(lse, scores.logsumexp(-1))
        output = (lse - both).exp()[..., None] * output + (scores - both[..., None]).exp() @ v
        grown, lse = grown + (scores.detach().amax(-1) > top).int(), both
        top = scores.detach().amax(-1).clamp(min=top)
    return output, grown


@ACCEPTED.add
def all_scores_at_once(query, key, value, size):
    scores = (query @ key.transpose(-2, -1)).div(query.size(-1) ** 0.5)
    heights = (
        torch.stack([block.amax(-1) for block in scores.split(size, -1)], -1).cummax(-1).values
    )
    grown = 1 + (heights.diff(dim=-1) > 0).sum(-1)
    return scores.softmax(-1) @ value, grown


@ACCEPTED.add
def key_by_key_in_float64(query, key, value, size):
    q, shape = query.double() / query.size(-1) ** 0.5, query.shape[:3]
    top, total, mixed = torch.full(shape, -math.inf).double(), torch.zeros(shape).double(), 0.0
    grown, block = torch.zeros(shape), None
    for j in range(key.size(2)):
        score = (q * key[:, :, j, None]).sum(-1)
        new = torch.maximum(top, score)
        if j % size == 0:
            block = torch.zeros(shape).bool()
        grown += (new > top) & ~block
        block |= new > top
        past, weight = (top - new).exp(), (score - new).exp()
        total, mixed = (
            past * total + weight,
            past[..., None] * mixed + weight[..., None] * value[:, :, j, None],
        )
        top = new
    return [mixed / total[..., None], grown]


def whole_blocks(query, key, value, size):
    """Without the last one where it is shorter; one that is all there is stays."""
    found = blocks(query, key, value, size)
    return [x for x in found if x[0].size(-1) == size] or found


KEEPS, FROM_0 = {"add": lambda mixed, factor, new, total: mixed + new}, {"start": 0.0}
MISTAKES = Mistakes([
    RIGHT.but("This is the code as found: the accumulator is not rescaled, and the maximum starts at 0.", **KEEPS, **FROM_0),
    RIGHT.but("The accumulator is still not rescaled, so it is right only where the largest score comes first.", **KEEPS),
    *rescalings(RIGHT)[1:3],
    *(Mistake(x.says, x.answer) for x in rescalings(RIGHT)[3:]),  # not together with others: they are many
    *(RIGHT.but(says, **steps) for says, steps in (
        ("The maximum still starts at 0, which is too much where all scores are below it.", FROM_0),
        *(("The maximum starts at a number such as -1 or -100; scores can be lower. Start at minus infinity.",
           {"start": start}) for start in (-1.0, -1e1, -1e2, -1e3)),
        ("The output is not divided by the sum.", {"divide": lambda o, t: o}),
        ("The accumulator is divided by the factor by which the sum is multiplied; both shrink alike.",
         {"add": lambda o, f, new, t: o / f[..., None] + new}),
        ("The scores are not divided by sqrt(head_dim).", {"cut": partial(blocks, scale=1.0)}),
        ("The last block is lost where it is shorter than the others.", {"cut": whole_blocks}),
        ("Only the first block is read.", {"cut": lambda *args: blocks(*args)[:1]}),
        ("All keys are read as one block, so the output is right, but the count is 1 everywhere.",
         {"cut": lambda q, k, v, size: blocks(q, k, v, k.size(2))}),
        ("The first block is not counted; it raises the maximum from minus infinity.",
         {"answer": lambda o, grown: (o, grown - 1)}),
        ("All blocks are counted; a block counts where it raises the maximum.", {"count": lambda new, old: new >= old}),
        ("The output is right, but the count is that of a maximum that starts at 0.",
         {"count": lambda new, old: new.clamp(min=0) > old.clamp(min=0)}),
        ("The blocks that do not raise the maximum are counted.", {"count": lambda new, old: new == old}),
        ("Rows are counted together; each row has its own count.",
         {"count": lambda new, old: (new > old).sum() + 0 * new}),
        ("A block is counted for all rows where it raises the maximum of one; each row has its own count.",
         {"count": lambda new, old: (new > old).any() + 0 * new}),
        ("The count keeps an axis of size 1 at the end; return (batch, heads, n).",
         {"answer": lambda o, grown: (o, grown[..., None])}),
        ("The count comes first; return (output, grown).", {"answer": lambda o, grown: (grown, o)}),
        ("The counts of all rows are added up; return (batch, heads, n).",
         {"answer": lambda o, grown: (o, grown.sum())}),
        ("Only the output is returned; return (output, grown).", {"answer": lambda o, grown: o}),
        ("No gradient flows back: the result is detached or made inside no_grad.",
         {"answer": lambda o, grown: (o.detach(), grown)}),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="repair_rescaling",
    answer="repaired_attention",
    judge=Counted(definition, CASES, names=("the output", "the counts")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
