"""Exercise tiled_forward: attention tile by tile, where there is no room for the scores of one query."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.flash._online import Online, rescalings
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import dots, outputs, scales
from attncourse.grading.recipe import Given, dot
from attncourse.grading.told import Several


def seen(columns, first):
    """Which of these columns are no padding: (batch, 1, 1, columns)."""
    return columns >= first[:, None, None, None]


def definition(query, key, value, first, rows, columns):
    """The attention of the course, and the logarithm of what its softmax divides by."""
    visible = seen(torch.arange(key.size(2)), first).expand(*query.shape[:3], -1)
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    lse = torch.logsumexp(scores.masked_fill(~visible, -math.inf), dim=-1)
    return spec.scaled_dot_product_attention(query, key, value, visible)[0], lse


CALLS = (  # what is special, b h n m d e, how loud, padding, rows, columns
    ("2 samples, 3 heads, 5 queries, 7 keys, tiles of 3 x 4", (2, 3, 5, 7, 4, 6), 1, (0, 0), 3, 4),
    ("padding over more than a tile", (3, 2, 4, 11, 5, 3), 1, (0, 7, 4), 3, 2),
    ("a sample of padding alone", (2, 2, 3, 6, 4, 5), 1, (6, 1), 2, 4),
    ("one tile that is larger than all", (2, 3, 4, 5, 6, 7), 1, (2, 0), 64, 64),
    ("large scores", (2, 2, 6, 9, 3, 4), 60, (0, 5), 4, 2),
    ("scores near 768 and -768", (2, 3, 5, 8, 4, 3), alternating, (3, 0), 2, 3),
    ("tiles of 1 x 1", (1, 2, 3, 5, 4, 2), 1, (1,), 1, 1),
)  # fmt: skip
MEASURED = (
    "2 samples, 2 heads, 5 queries, 300 keys, tiles of 3 x 20",
    *((2, 2, 5, 300, 3, 2), 1, (0, 90), 3, 20),
)


def cases(seed: int, calls: tuple = CALLS) -> list[Case]:
    calls = [
        (what, sizes, loud, torch.tensor(first), *tile) for what, sizes, loud, first, *tile in calls
    ]
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def memory(answer) -> bool | str:
    """True when no operation makes as many numbers as there are keys, else what seems to be made."""
    query, key, value, *rest = cases(7, [MEASURED])[0].args
    made = as_answer(answer).allocations(query, key, value, *rest)
    if made.new < key.size(2):
        return True
    if made.new in (key.numel(), value.numel()):
        what = "keys or values, copied"
    else:
        of = [
            f"for all {name}"
            for name, x in (("keys", key), ("queries", query))
            if not made.new % x.size(2)
        ]
        what = of[0] if of else "too much"
    return Described(f"{what}: {made.how}")


def cut(length, size):
    """0 to length in blocks; the last one may be smaller."""
    return [slice(a, min(a + size, length)) for a in range(0, length, size)]


def whole_blocks(length, size):
    """Without a smaller one at the end."""
    return [x for x in cut(length, size) if x.stop - x.start == size]


@dataclass(frozen=True)
class Tiled(Online):
    """Both loops."""

    given: Callable = lambda key, value: (key, value)
    down: Callable = cut
    across: Callable = cut
    score: Callable = dot
    scale: Callable = lambda x: x.width**-0.5
    visible: Callable = lambda at, first, m: seen(torch.arange(at.start, at.stop), first)
    hide: Callable = lambda scores, visible: scores.masked_fill(~visible, -math.inf)
    sums: Callable = lambda largest, total: largest + total.log()
    join: Callable = lambda blocks: torch.cat(blocks, dim=2)
    answer: Callable = lambda output, lse, *_: (output, lse)
    width: str = "head_dim"

    def __call__(self, query, key, value, first, rows, columns):
        (key, value), outputs, sums = self.given(key, value), [], []
        for at in self.down(query.size(2), rows):
            tiles = self.tiles(query[:, :, at], key, value, first, columns)
            for largest, total, mixed in self.states(tiles):  # noqa: B007
                pass  # a list of all states would keep small tensors between the large ones, and its memory
            outputs.append(self.divide(mixed, total))
            sums.append(self.sums(largest, total))
        return self.answer(self.join(outputs), self.join(sums), None, None)

    def tiles(self, query, key, value, first, columns):
        found = self.across(key.size(2), columns)
        if not found:
            yield torch.full((*query.shape[:3], 1), -math.inf), value[:, :, :1]
        for at in found:
            x = Given(query, key[:, :, at], value[:, :, at])
            yield (
                self.hide(self.score(x) * self.scale(x), self.visible(at, first, key.size(2))),
                x.value,
            )


RIGHT = Tiled()
ACCEPTED = Accepted(two_loops=RIGHT)


@ACCEPTED.add
def written_into_the_output(query, key, value, first, rows, columns):
    out, lse = torch.zeros(*query.shape[:3], value.size(3)), torch.full(query.shape[:3], -math.inf)
    for a in range(0, query.size(2), rows):
        for c in range(0, key.size(2), columns):
            o, l = out[:, :, a : a + rows], lse[:, :, a : a + rows]  # noqa: E741
            hidden = torch.arange(c, min(c + columns, key.size(2))) < first[:, None, None, None]
            s = torch.einsum(
                "bhid,bhjd->bhij", query[:, :, a : a + rows], key[:, :, c : c + columns]
            )
            s = (s / math.sqrt(query.size(3))).masked_fill(hidden, -math.inf)
            both = torch.logaddexp(l, s.logsumexp(-1))
            safe = both.nan_to_num(neginf=0.0).unsqueeze(-1)
            o.copy_(
                (l.unsqueeze(-1) - safe).exp() * o + (s - safe).exp() @ value[:, :, c : c + columns]
            )
            l.copy_(both)
    return out, lse


@ACCEPTED.add
def halves_that_are_merged(query, key, value, first, rows, columns):
    """Keys are halved until a block of columns is left; queries likewise."""
    n, m = query.size(2), key.size(2)
    if n > rows:
        parts = (
            halves_that_are_merged(q, key, value, first, rows, columns)
            for q in query.split((n + 1) // 2, 2)
        )
        return [torch.cat(x, dim=2) for x in zip(*parts, strict=True)]
    if m > columns:
        (a, x), (b, y) = (halves_that_are_merged(query, key[:, :, at], value[:, :, at], first - at.start, rows, columns)
                          for at in (slice(0, m // 2), slice(m // 2, m)))  # fmt: skip
        share = torch.sigmoid((x - y).nan_to_num(nan=0.0))[..., None]
        return share * a + (1 - share) * b, torch.logaddexp(x, y)
    scores = (query / query.size(-1) ** 0.5) @ key.mT
    scores = torch.where(seen(torch.arange(m), first), scores, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


@ACCEPTED.add
def two_passes_in_float64(query, key, value, first, rows, columns):
    """The first pass over the keys finds the maxima, so that nothing is rescaled."""
    outputs, lses = [], []
    for q in (query / query.size(-1) ** 0.5).split(rows, dim=2):

        def tiles(q=q):
            for c in range(0, key.size(2), columns):
                hidden = torch.arange(c, min(c + columns, key.size(2))) < first.view(-1, 1, 1, 1)
                s = q.double() @ key[:, :, c : c + columns].double().mT
                yield s.masked_fill(hidden, -math.inf), value[:, :, c : c + columns].double()

        top = torch.full((*q.shape[:3], 1), -math.inf).double()
        for s, _ in tiles():
            top = torch.maximum(top, s.max(-1, keepdim=True)[0])
        top = top.nan_to_num(neginf=0.0)
        total = sum((s - top).exp().sum(-1, keepdim=True) for s, _ in tiles())
        outputs.append(sum((s - top).exp() @ v for s, v in tiles()) / total.clamp(min=1e-300))
        lses.append((top + total.log()).squeeze(-1))
    return torch.cat(outputs, 2), torch.cat(lses, 2)


def whole(query, key, value, first, rows, columns):
    """Right, with all scores."""
    hidden = ~seen(torch.arange(key.size(2)), first)
    scores = (query.double() @ key.double().mT / query.size(-1) ** 0.5).masked_fill(
        hidden, -math.inf
    )
    return scores.softmax(-1).nan_to_num(0.0) @ value.double(), scores.logsumexp(-1)


SHARED = dots, scales, outputs
ALL_ROWS = {"down": lambda n, size: cut(n, n), "across": lambda m, size: cut(m, 100)}
MISTAKES = Mistakes([
    Mistake("The results are right, but something is made for all keys at once: scores, weights or a mask. Walk over "
            "the keys in blocks of columns, and keep a maximum, a sum and an accumulator for each row.", whole),
    RIGHT.but("The results are right, but all queries meet a block of keys at once; walk over the queries in blocks "
              "of rows.", **ALL_ROWS),
    RIGHT.but("The results are right, but keys or values are copied as a whole: by a factor, another type, contiguous "
              "or stack. Cut first, and scale the queries or the scores.",
              given=lambda k, v: (k.clone(), v.clone()), **ALL_ROWS),
    RIGHT.but("The results are right, but one operation makes as many numbers as there are keys, or more; cut into tiles "
              "before you compute.", given=lambda k, v: (F.pad(k, (0, 0, 0, 4))[:, :, :-4], v), **ALL_ROWS),
    *(RIGHT.but(says, **steps) for family in SHARED for _, says, steps in family(RIGHT) if "finish" not in steps),
    *rescalings(RIGHT)[:3],
    *(Mistake(x.says, x.answer) for x in rescalings(RIGHT)[3:]),  # not together with others: they are many
    *(RIGHT.but(says, **steps) for says, steps in (
        ("The maximum starts at 0; where all scores of a row are below it, it stays 0, and far below it nothing is left of them.", {"start": 0.0}),
        ("A row that has seen only padding gets NaN, from infinity minus infinity.", {"shift": lambda new: new}),
        ("A row that may read nothing is divided by 0; its output is 0.", {"divide": lambda o, t: o / t[..., None]}),
        ("A row that may read nothing has a finite lse here; it is minus infinity.",
         {"answer": lambda o, lse, *_: (o, lse.masked_fill(lse == -math.inf, 0.0))}),
        ("The output is not divided by the sum.", {"divide": lambda o, t: o}),
        ("The last rows are lost where a block is smaller than the others.", {"down": whole_blocks}),
        ("The last keys are lost where a block is smaller than the others.", {"across": whole_blocks}),
        ("Only the first block of keys is read.", {"across": lambda n, size: cut(n, size)[:1]}),
        ("The columns of each tile are counted from 0; padding is counted from the first key of all.",
         {"visible": lambda at, first, m: seen(torch.arange(at.stop - at.start), first)}),
        ("The padding is read like other keys.", {"hide": lambda s, visible: s}),
        ("The padding is read, and the other keys are not.",
         {"hide": lambda s, visible: s.masked_fill(visible, -math.inf)}),
        ("Key first is hidden; it is the first that is no padding.",
         {"visible": lambda at, first, m: seen(torch.arange(at.start, at.stop), first + 1)}),
        ("The last key of the padding is read; keys before first are hidden.",
         {"visible": lambda at, first, m: seen(torch.arange(at.start, at.stop), first - 1)}),
        ("All samples get the padding of the first one; each has its own.",
         {"visible": lambda at, first, m: seen(torch.arange(at.start, at.stop), first[:1])}),
        ("The padding is taken to stand behind the keys; it stands in front.",
         {"visible": lambda at, first, m: torch.arange(at.start, at.stop) < m - first[:, None, None, None]}),
        *(("The scores of padding become a number such as -1e9, so that a sample of padding alone reads it.",
           {"hide": lambda s, visible, fill=fill: s.masked_fill(~visible, fill)})
          for fill in (-1e2, -1e4, -1e9, -1e30, torch.finfo(torch.float32).min)),
        ("The scores of padding are 0 here, so padding keeps some weight; minus infinity leaves none.",
         {"hide": lambda s, visible: s.masked_fill(~visible, 0.0)}),
        ("The lse is the maximum alone; add the logarithm of the sum.", {"sums": lambda top, t: top}),
        ("The lse is the logarithm of the sum alone; add the maximum that was subtracted.",
         {"sums": lambda top, t: t.log()}),
        ("The sum is returned without its logarithm; lse = maximum + log(sum).", {"sums": lambda top, t: top + t}),
        ("The sum of the exponentials is returned; return maximum + log(sum).", {"sums": lambda top, t: t}),
        ("The lse keeps an axis of size 1 at the end; return (batch, heads, n).",
         {"answer": lambda o, lse, *_: (o, lse[..., None])}),
        ("Only the output is returned; return (output, lse).", {"answer": lambda o, lse, *_: o}),
        ("The lse comes first; return (output, lse).", {"answer": lambda o, lse, *_: (lse, o)}),
        ("NaN is replaced at the end, which also loses rows whose first tile is padding; replace the maximum before.",
         {"shift": lambda new: new, "divide": lambda o, t: (o / t[..., None]).nan_to_num()}),
        ("The blocks of rows are returned in a list; join them along the axis of the queries.", {"join": tuple}),
        ("Only the last block of rows is returned; join all of them along the axis of the queries.",
         {"join": lambda blocks: blocks[-1]}),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="tiled_forward",
    answer="tiled_attention",
    judge=MemoryLimited(
        Several(definition, cases, gradients=False, names=("the output", "the lse")),
        f"{MEASURED[0]}: no operation makes 300 numbers or more",
        memory,
        # The scores of one query are 48 MiB, those of a tile 256 KiB.
        Budget(
            lambda g: (
                *normal(g, (1, 1, 2, 1), *[(1, 1, 12 * 2**20, 1)] * 2),
                torch.tensor([99]),
                2,
                2**15,
            ),
            RIGHT,
        ),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
