"""Exercise layers_needed: after how many layers has a position heard of another, when each layer has its own mask?"""

import math

import torch
from torch import Tensor

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.global_local import _layers as ways
from attncourse.grading.exercises.global_local._layers import RIGHT, spread
from attncourse.grading.exercises.global_local._tables import Tables
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(masks):
    """Layer by layer, the set of positions that each position has heard of."""
    n = masks.size(1)
    known, found = [{i} for i in range(n)], torch.eye(n).long() - 1
    for layer, mask in enumerate(masks.tolist(), start=1):
        before = [set(one) for one in known]
        for i, row in enumerate(mask):
            for j, visible in enumerate(row):
                known[i] |= before[j] if visible else set()
            for j in known[i] - before[i]:
                found[i, j] = layer
    return found


def band(n: int, left: int, right: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril(right).triu(-left)


def cases(seed: int) -> list[Case]:
    """Masks of every kind, and one in which the ways from one position to another are more than an integer can count."""
    g = seeded(seed)

    def drawn(layers, n, share):
        return torch.rand(layers, n, n, generator=g) < share

    hub = band(9, 1, 0)
    hub[4] = hub[:, 4] = True
    near, all_of_them = band(7, 1, 1), band(7, 7, 0)
    ways = torch.zeros(36, 18, 18, dtype=torch.bool)
    ways[:, :16, :16] = ~torch.eye(16, dtype=torch.bool)
    ways[17, 16, 0] = ways[34, 17, 16] = (
        True  # after 17 layers, 16 ** 16 ways lead from one to another
    )
    layers, n = (int(torch.randint(*x, (), generator=g)) for x in ((3, 7), (10, 15)))
    calls = {
        "5 layers, 7 positions, the two before": band(7, 2, 0).expand(5, -1, -1).clone(),
        "2 layers, 9 positions, a global token": hub.expand(2, -1, -1).clone(),
        "6 layers of 7 positions, a full one after two windows": torch.stack([near, near, all_of_them] * 2),
        "4 layers, 8 positions, masks drawn at random": drawn(4, 8, 0.15),
        "3 layers, 5 positions, none reads its own key": drawn(3, 5, 0.4) & ~torch.eye(5).bool(),
        "2 layers, 4 positions, nothing is visible": torch.zeros(2, 4, 4, dtype=torch.bool),
        "3 layers, 5 positions, the first reads nothing": torch.stack([0 * hub[:5, :5], *2 * [hub[:5, :5]]]).bool(),
        "1 layer, 6 positions": drawn(1, 6, 0.3),
        "as many layers as positions": drawn(6, 6, 0.12),
        "sizes drawn at random": drawn(layers, n, 0.1),
        "36 layers, 18 positions, 16 of them read each other": ways,
    }  # fmt: skip
    return [Case(what, (masks,), gradients=False) for what, masks in calls.items()]


def kinds(expected, seen, masks):
    """In which way the number of a pair is wrong."""
    yield "the diagonal is not 0", torch.eye(len(expected)).bool()
    yield "a pair that never hears of the other does not have -1", expected < 0
    yield "a pair has -1 that does hear of the other", seen == -1
    yield "news comes too early", seen < expected
    yield "news comes too late", seen > expected


ACCEPTED = Accepted(products=RIGHT)


@ACCEPTED.add
def loops_over_sets(masks):
    n = masks.shape[-1]
    known = [{i} for i in range(n)]
    found = [[0 if i == j else -1 for j in range(n)] for i in range(n)]
    for layer in range(len(masks)):
        new = []
        for i in range(n):
            heard = set(known[i])
            for j in masks[layer, i].nonzero().flatten().tolist():
                heard |= known[j]
            for j in heard - known[i]:
                found[i][j] = layer + 1
            new.append(heard)
        known = new
    return torch.tensor(found)


@ACCEPTED.add
def sum_of_what_is_not_known_yet(masks):
    """A pair that is not known after k layers has waited k + 1 of them."""
    n, known = masks.size(1), torch.eye(masks.size(1))
    waited = torch.zeros(n, n)
    for mask in masks:
        waited += known == 0
        known = ((mask.float() + torch.eye(n)) @ known).clamp(max=1)
    return torch.where(known > 0, waited, -1.0).int()


@ACCEPTED.add
def earliest_of_all_layers(masks):
    eye = torch.eye(masks.size(-1), dtype=torch.bool)
    stages = [eye]
    for mask in masks | eye:
        stages.append((mask[:, :, None] & stages[-1][None]).any(1))
    stages = torch.stack(stages)
    return torch.where(stages[-1], stages.int().argmax(0), -1)


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("Only what is read in this layer is kept; the residual connection keeps what a position knew, read or not.",
     {"keep": lambda known, heard: heard}),
    ("Only the position itself is kept, not what it had heard of; the residual connection keeps all of it.",
     {"keep": lambda known, heard: heard | torch.eye(len(heard)).bool()}),
    ("Positions hear in a layer what others hear in that same layer; all of them read what was known before it.",
     {"spread": ways.in_one_go(1)}),
    ("Positions hear in a layer what others hear in that same layer; all of them read what was known before it.",
     {"spread": ways.in_one_go(-1)}),
    ("What one layer relays is counted as well: j and those that j reads, with the same mask.",
     {"layers": lambda masks: masks | spread(masks, masks)}),
    ("The loop ends at the first layer that brings no news; a later layer, with another mask, can bring some.",
     {"layers": ways.until_nothing_is_new}),
    ("All masks are joined into one graph, and its distances are asked; each layer has its own mask, and there are no more "
     "layers than masks.", {"layers": ways.one_graph}),
    ("mask @ known is exchanged for known @ mask, as if the last layer came first: position i learns what those that it "
     "reads knew.", {"spread": lambda mask, known: (known.double() @ mask.double()) > 0}),
    ("The layers run from the last to the first.", {"layers": lambda masks: masks.flip(0)}),
    ("Every layer uses the first mask; each has its own.", {"layers": lambda masks: masks[:1].expand_as(masks)}),
    ("Every layer uses the last mask; each has its own.", {"layers": lambda masks: masks[-1:].expand_as(masks)}),
    ("Every layer uses all masks at once; each has its own.",
     {"layers": lambda masks: masks.any(0, keepdim=True).expand_as(masks)}),
    ("A layer uses the masks of the layers before as well; each has its own.", {"layers": lambda masks: masks.cummax(0).values}),
    ("mask & known asks of each pair alone, so nothing is passed on; i hears what those that it reads knew: mask @ known.",
     {"spread": torch.logical_and}),
    ("known is transposed: row i of the product needs what each j knew, which is row j.",
     {"spread": lambda mask, known: spread(mask, known.T)}),
    ("The first layer is left out.", {"layers": lambda masks: masks[1:], "first": 2}),
    ("Who reads and who is read are exchanged: mask[i, j] lets i read j.", {"layers": lambda masks: masks.mT}),
    ("Reading is taken to work both ways; where i reads j, only i learns.", {"layers": lambda masks: masks | masks.mT}),
    ("Only direct reading counts; what j has heard of in earlier layers comes along.",
     {"spread": lambda mask, known: mask}),
    ("Layers are counted from 0; after the first layer the number is 1.", {"first": 0}),
    ("The count is one too high; after the first layer it is 1.", {"first": 2}),
    ("The last layer in which something was heard again is kept; the first one is asked.",
     {"mark": lambda found, known, new, layer: found.masked_fill(new & (found != 0), layer)}),
))  # fmt: skip
MISTAKES += [RIGHT.but(says, finish=finish) for says, finish in (
    ("The last layer is written down again and again, for a position itself, too; the first one is asked, and 0 for itself.",
     lambda found, masks: torch.where(found < 0, found, len(masks))),
    ("The layers after which the pair is known are counted; the number of the first one is asked.",
     lambda found, masks: torch.where(found < 0, 0, torch.where(found > 0, len(masks) + 1 - found, len(masks)))),
    ("These are the layers that are left; the number of those that have worked is asked.",
     lambda found, masks: torch.where(found > 0, len(masks) - found, found)),
    *(("What is never heard of has another number here; it has -1.",
       lambda found, masks, x=x: torch.where(found < 0, x(found, masks), found.double()))
      for x in (lambda found, masks: 0.0, lambda found, masks: len(masks) + 1.0, lambda found, masks: float(len(found)),
                lambda found, masks: math.inf, lambda found, masks: math.nan, lambda found, masks: float(len(masks)))),
    ("The diagonal is 1 here; a position knows itself before the first layer, so it is 0.",
     lambda found, masks: found + torch.eye(len(found)).long()),
    ("The diagonal is -1 here; a position knows itself before the first layer, so it is 0.",
     lambda found, masks: found.masked_fill(torch.eye(len(found)).bool(), -1)),
    ("Rows and columns are exchanged: [i, j] is when i hears of j.", lambda found, masks: found.mT),
    ("These are booleans; return the number of the layer.", lambda found, masks: found >= 0),
    ("This is one number for each position; return one for each pair, (n, n).", lambda found, masks: found.amax(1)),
    ("There is an axis for the layers; return (n, n).",
     lambda found, masks: (found >= 0) & (found <= torch.arange(1, len(masks) + 1)[:, None, None])),
    ("The result is a list; return a tensor (n, n).", lambda found, masks: found.tolist()),
)] + [Mistake(says, answer) for says, answer in (
    *(("The number of ways is counted, and it grows beyond what this type can hold; keep only whether there is one.",
       ways.counted(dtype)) for dtype in (torch.uint8, torch.int32, torch.int64, torch.float32)),
    ("These are ways.readings on the way; layers in which the news only waits count, too.", ways.readings),
    ("A position counts as unknown to itself until it reads its own key; it knows itself before the first layer.",
     ways.Layers(start=lambda n: torch.zeros(n, n).bool(), spread=lambda mask, known: mask | spread(mask, known))),
    ("The first mask is taken for all layers, and for more layers than there are masks.",
     lambda masks: RIGHT(masks[:1].expand(masks.size(1), -1, -1))),
    ("These are the layers in which i reads j itself; what j has heard of in earlier layers comes along, and 0 stands for itself.",
     lambda masks: torch.where(masks.any(0), masks.int().argmax(0) + 1, -1)),
    ("This says how many layers have the pair; after how many i has heard of j is asked.", lambda masks: masks.sum(0)),
    ("masks is changed in place; its caller finds it changed.",
     lambda masks: (RIGHT(masks), masks.logical_or_(torch.eye(masks.size(1)).bool()))[0]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="layers_needed",
    answer="heard_after",
    judge=Tables(definition, cases, kinds=kinds),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
