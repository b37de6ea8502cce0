"""Exercise layers_needed: after how many layers, each with its mask, has i heard of j?"""

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.explain.kinds import kinds
from attncourse.grading.explain.shapes import reshaped
from attncourse.grading.numerals import as_tensor


def definition(masks):
    """Layer by layer, the set of positions that each position has heard of."""
    n = masks.size(1)
    known, found = [{i} for i in range(n)], torch.eye(n).double() - 1
    for layer, mask in enumerate(masks.tolist(), start=1):
        before = [set(one) for one in known]
        for i, row in enumerate(mask):
            known[i] |= set().union(*(before[j] for j, visible in enumerate(row) if visible))
            found[i, list(known[i] - before[i])] = layer
    return found


def band(n, left, right):
    return torch.ones(n, n, dtype=torch.bool).tril(right).triu(-left)


def cases(seed: int) -> list[Case]:
    """Masks of every kind; in the last, more ways than an integer can count lead to a position."""
    g = seeded(seed)

    def drawn(layers, n, share):
        return torch.rand(layers, n, n, generator=g) < share

    hub = band(9, 1, 0) | (torch.arange(9) == 4) | (torch.arange(9) == 4)[:, None]
    mixed = torch.stack([band(7, 1, 1), band(7, 1, 1), band(7, 7, 0)] * 2)
    late = torch.stack([hub[:5, :5] & False, hub[:5, :5], hub[:5, :5]])
    ways = torch.zeros(36, 18, 18, dtype=torch.bool)
    ways[:, :16, :16] = ~torch.eye(16, dtype=torch.bool)
    ways[17, 16, 0] = ways[34, 17, 16] = True  # after 17 layers, 16 ** 16 ways
    many = torch.zeros(2, 260, 260, dtype=torch.bool)
    many[0, 1:257, 0] = many[1, 259, 1:257] = True  # 259 reads 256 positions that know of 0
    deep = torch.zeros(130, 4, 4, dtype=torch.bool)
    deep[129, 1, 0] = True
    layers, n = (int(torch.randint(*x, (), generator=g)) for x in ((3, 7), (10, 15)))
    calls = {
        "5 layers, 7 positions, the two before": band(7, 2, 0).expand(5, -1, -1).clone(),
        "2 layers, 9 positions, a global token": hub.expand(2, -1, -1).clone(),
        "6 layers of 7 positions, a full one after two windows": mixed,
        "3 layers, 5 positions, none reads its own key": drawn(3, 5, 0.4) & ~torch.eye(5).bool(),
        "3 layers, 5 positions, the first reads nothing": late,
        "2 layers, 260 positions, 256 ways at once": many,
        "130 layers, and only the last one reads others": deep,
        "as many layers as positions": drawn(6, 6, 0.12),
        "sizes drawn at random": drawn(layers, n, 0.1),
        "36 layers, 18 positions, more ways than an integer can count": ways,
    }
    return [Case(what, (masks,), gradients=False) for what, masks in calls.items()]


def numbers(expected, seen, masks):
    """In which way the number of a pair is wrong."""
    yield "the diagonal is not 0", torch.eye(len(expected)).bool()
    yield "a pair that never hears of the other does not have -1", expected < 0
    yield "a pair has -1 that does hear of the other", seen == -1
    yield "news comes too early", seen < expected
    yield "news comes too late", seen > expected


@Dataflow
def right(masks):
    known = torch.eye(masks.size(1), dtype=torch.bool)
    found = known.long() - 1
    for layer, mask in enumerate(masks, start=1):
        heard = yield "what the positions hear", (mask.double() @ known.double()) > 0
        known = yield "what the positions know behind a layer", known | heard
        found = found.masked_fill(known & (found < 0), layer)
    return found


EXERCISE = Exercise(
    name="layers_needed",
    answer="heard_after",
    judge=Calls(definition, cases, gradients=False, reads=as_tensor),
    right=right,
    axes=("i j",),
    explain=(reshaped, kinds(numbers)),
)
