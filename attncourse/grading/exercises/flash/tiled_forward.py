"""Exercise tiled_forward: attention in tiles, without room for the scores of a query."""

import math

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Case, Dataflow, Described, Exercise
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited


def definition(query, key, value, first, rows, columns):
    """The attention of the course, and the logarithm of what its softmax divides by."""
    seen = torch.arange(key.size(2)) >= first[:, None, None, None]
    visible = seen.expand(*query.shape[:3], -1)
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    lse = torch.logsumexp(scores.masked_fill(~visible, -math.inf), dim=-1)
    return spec.scaled_dot_product_attention(query, key, value, visible)[0], lse


def rising(query, key):
    """The first keys are padding whose scores are far above all others."""
    query[..., 0], key[:, :, :2, 0] = 6.0, 100.0


CALLS = (  # special about the call, b h n m d e, how loud, padding, rows, columns
    ("2 samples, 3 heads, 5 queries, 7 keys, tiles of 3 x 4", (2, 3, 5, 7, 4, 6), 1, (0, 0), 3, 4),
    ("padding over more than a tile", (3, 2, 4, 11, 5, 3), 1, (0, 7, 4), 3, 2),
    ("a sample of padding alone", (2, 2, 3, 6, 4, 5), 1, (6, 1), 2, 4),
    ("one tile that is larger than all", (2, 3, 4, 5, 6, 7), 1, (2, 0), 64, 64),
    ("scores near 384 and -384", (2, 3, 5, 8, 4, 3), alternating, (3, 0), 2, 3),
    ("scores of padding near 300, others of all sizes", (1, 2, 4, 6, 4, 3), rising, (2,), 2, 2),
    ("tiles of 1 x 1", (1, 2, 3, 5, 4, 2), 1, (1,), 1, 1),
)
MEASURED = "5 queries, 100 keys, tiles of 3 x 20", (1, 1, 5, 100, 3, 2), 1, (25,), 3, 20


def cases(seed: int, calls: tuple = CALLS) -> list[Case]:
    calls = [(*x[:3], torch.tensor(x[3]), *x[4:]) for x in calls]
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def memory(answer) -> bool | str:
    """True where no operation makes as many numbers as there are keys."""
    made = as_answer(answer).allocations(*cases(7, [MEASURED])[0].args)
    return made.new < 100 or Described(f"too much at once: {made.how}")


def long(generator) -> tuple:
    """The scores of one query are 48 MiB, those of a tile 256 KiB."""
    tensors = normal(generator, (1, 1, 2, 1), *[(1, 1, 12 * 2**20, 1)] * 2)
    return *tensors, torch.tensor([99]), 2, 2**15


@Dataflow
def right(q, k, v, first, rows, columns):
    outputs, sums = [], []
    for part in q.split(rows, 2):
        old, total, mixed = torch.full(part.shape[:3], -math.inf), torch.zeros(part.shape[:3]), 0.0
        for begin in range(0, k.size(2), columns):
            keys, values = (x[:, :, begin : begin + columns] for x in (k, v))
            scores = part @ keys.mT / q.size(-1) ** 0.5
            scores = yield "the scores of a tile, divided by sqrt(head_dim)", scores
            padding = torch.arange(begin, begin + keys.size(2)) < first[:, None, None, None]
            scores = scores.masked_fill(padding, -math.inf)
            scores = yield "the scores of a tile, minus infinity at padding", scores
            new = yield "the maxima so far", torch.maximum(old, scores.amax(-1))
            shift = new.masked_fill(new == -math.inf, 0)
            tile = yield "the exponentials of a tile", (scores - shift[..., None]).exp()
            past = yield "the factors exp(old maximum - new maximum)", (old - shift).exp()
            total = yield "the sums so far", past * total + tile.sum(-1)
            mixed = past[..., None] * mixed + tile @ values
            mixed = yield "the accumulators so far", mixed
            old = new
        outputs.append(mixed / total.masked_fill(total == 0, 1)[..., None])
        sums.append(old + total.log())
    return torch.cat(outputs, 2), torch.cat(sums, 2)


EXERCISE = Exercise(
    name="tiled_forward",
    answer="tiled_attention",
    judge=MemoryLimited(
        Calls(definition, cases, gradients=False),
        f"{MEASURED[0]}: no operation makes 100 numbers or more",
        memory,
        Budget(long, right),
        "Walk over the queries in blocks of rows and over the keys in blocks of columns, cut "
        "before you compute, and keep a maximum, a sum and an accumulator for each row.",
    ),
    right=right,
    axes=("b h n e", "b h n"),
    results=("the output", "the lse"),
)
