"""Exercise windowed_scores: the scores of a window as a narrow table, made without the wide one."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.sliding_window import _band as band
from attncourse.grading.exercises.sliding_window._window import grows_linearly
from attncourse.grading.inputs import normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import gradients, heads, in_place, mistakes_of, outputs, scales

CALLS = (  # what is special, b h n d, how loud, left, right
    ("2 samples, 3 heads, 7 tokens, head_dim 5, 3 to the left, 1 to the right", (2, 3, 7, 5), 1, 3, 1),
    ("a causal window of 4 tokens", (3, 2, 6, 4), 1, 3, 0),
    ("1 to the left, 4 to the right", (2, 1, 8, 3), 1, 1, 4),
    ("a window wider than the sequence", (1, 2, 3, 4), 1, 5, 6),
    ("only itself", (2, 3, 4, 6), 2, 0, 0),
    ("1 token", (3, 2, 1, 5), 1, 2, 1),
    ("large scores", (2, 2, 9, 3), 900, 2, 2),
    ("256 tokens", (1, 1, 256, 2), 2, 5, 2),
)  # fmt: skip


def measured(n):
    """5 keys to the left, 2 to the right."""
    return *normal(torch.Generator().manual_seed(7), *[(1, 1, n, 2)] * 2), 5, 2


def cases(seed: int) -> list[Case]:
    found = sized_cases(seed, "b h n d", "b h n d, b h n d", CALLS)
    found[1].args[1][:, :, 2] = 0.0  # a score of 0 is a score: this is no padding
    return found


ACCEPTED = Accepted(gathered=band.RIGHT)


@ACCEPTED.add
def unfolded(query, key, left, right):
    there = F.pad(torch.ones(query.size(2)), (left, right)).unfold(0, left + 1 + right, 1)
    keys = F.pad(key, (0, 0, left, right)).unfold(2, left + 1 + right, 1)
    scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / math.sqrt(query.size(-1))
    return scores.masked_fill(there == 0, -math.inf)


@ACCEPTED.add
def column_by_column(query, key, left, right):
    n, scores = query.size(2), []
    for c in range(-left, right + 1):
        here = (query[:, :, max(0, -c) : max(0, n - c)] * key[:, :, max(0, c) : max(0, n + c)]).sum(
            -1
        )
        before = min(n, max(0, -c))
        scores.append(F.pad(here, (before, n - before - here.size(-1)), value=-math.inf))
    return torch.stack(scores, dim=-1) * query.size(-1) ** -0.5


@ACCEPTED.add
def row_by_row(query, key, left, right):
    rows, n = [], query.size(2)
    for i in range(n):
        first, last = max(0, i - left), min(n, i + right + 1)
        row = (query[:, :, i : i + 1] @ key[:, :, first:last].mT)[:, :, 0] / math.sqrt(
            query.size(3)
        )
        rows.append(F.pad(row, (first - i + left, i + right + 1 - last), value=float("-inf")))
    return torch.stack(rows, 2)


NO_KEY = "where no key stands, before the first one and behind the last, it is minus infinity"
MISTAKES = Mistakes([
    Mistake("The results are right, but a table of n x n numbers is made on the way, of scores or of a mask; multiply each "
            "query with the keys of its window only.", band.wide),
    Mistake("The results are right, but twice as many tokens take four times as much, part by part: each query meets all keys, or "
            "what is there is copied with every part. Cut the window out first, and join the parts once.", band.row_of_all),
    *mistakes_of(band.RIGHT, scales, outputs, heads, gradients, in_place,
                 without=("scaled by values", "scaled after the softmax", "weights detached", "value detached")),
    *(Mistake(f"There is a finite number, such as -1e9; {NO_KEY}.", band.RIGHT.but("", mask=lambda s, x, f=fill: s.masked_fill(~x.visible, f)).answer)
      for fill in (-10.0, -50.0, -1e2, -1e3, -5e3, -1e4, -1e5, -1e6, -1e7, -1e8, -1e10, -1e12, -1e20, -1e30, -3e38)),
    *(band.RIGHT.but(says, **steps) for says, steps in (
        ("The columns stand in the opposite order; column 0 is key i - left, the last one key i + right.",
         band.reads(at=lambda i, c, left, right: i + right - c)),
        ("The columns count backwards from key i + left; column c is key i - left + c.",
         band.reads(at=lambda i, c, left, right: i + left - c)),
        ("Only the first sample is returned; return all of them.", band.returned(lambda o, *x: o[:1])),
        ("Only head 0 is returned; return all heads.", band.returned(lambda o, *x: o[:, 0])),
        ("left and right are exchanged; the first is the number of keys before the query.",
         band.reads(at=lambda i, c, left, right: i - right + c)),
        ("Every column is one key too late; column c of row i is key i - left + c.",
         band.reads(at=lambda i, c, left, right: i - left + c + 1)),
        ("Every column is one key too early; column c of row i is key i - left + c.",
         band.reads(at=lambda i, c, left, right: i - left + c - 1)),
        ("All rows have the keys 0, 1, 2 and so on; the window moves along with its query.",
         band.reads(at=lambda i, c, left, right: 0 * i + c)),
        ("The window starts at its query; it starts at key i - left.", band.reads(at=lambda i, c, left, right: i + c)),
        ("The rows are keys here: each has the scores of its own key with the queries around it.",
         {"given": lambda query, key, left, right: band.given(key, query, left, right)}),
        ("The last column is missing: from i - left to i + right there are left + 1 + right keys.",
         band.reads(width=lambda left, right: left + right)),
        ("There is a column too many: from i - left to i + right there are left + 1 + right keys.",
         band.reads(width=lambda left, right: left + right + 2)),
        ("The window is as wide to the right as to the left.", band.reads(width=lambda left, right: 2 * left + 1)),
        ("The window ends at its query; it also has the keys up to i + right.", band.reads(width=lambda left, right: left + 1)),
        ("The keys on the right are hidden, as in a causal layer; the window has them.",
         band.returned(lambda o, q, k, left, right: o.masked_fill(torch.arange(o.size(-1)) > left, -math.inf))),
        ("The query's own key is missing; its column is number left.",
         band.returned(lambda o, q, k, left, right: torch.cat([o[..., :left], o[..., left + 1 :]], -1))),
        (f"There are scores of 0, as of keys of zeros; {NO_KEY}.", {"mask": lambda s, x: s.masked_fill(~x.visible, 0.0)}),
        (f"The first or the last key is repeated; {NO_KEY}.", {"mask": lambda s, x: s}),
        (f"The keys go around: before the first one comes the last; {NO_KEY}.",
         {"given": lambda q, k, left, right: band.wrapped(q, k, left, right), "mask": lambda s, x: s}),
        (f"There is NaN; {NO_KEY}.", {"mask": lambda s, x: s.masked_fill(~x.visible, math.nan)}),
        (f"It is plus infinity; {NO_KEY}.", {"mask": lambda s, x: s.masked_fill(~x.visible, math.inf)}),
        *((f"There is a finite number, such as -1e9; {NO_KEY}.",
           {"mask": lambda s, x, fill=fill: s.masked_fill(~x.visible, fill)})
          for fill in (-1.0, -1e9, torch.finfo(torch.float32).min)),
        ("Before the first key it is right, but not behind the last: there, too, it is minus infinity.",
         {"mask": lambda s, x: s.masked_fill(~x.visible & (torch.arange(s.size(-1)) <= x.rest[2]), -math.inf)}),
        ("Behind the last key it is right, but not before the first: there, too, it is minus infinity.",
         {"mask": lambda s, x: s.masked_fill(~x.visible & (torch.arange(s.size(-1)) > x.rest[2]), -math.inf)}),
        ("The last key is taken for one that does not exist; it is number n - 1.",
         {"mask": lambda s, x: s.masked_fill(~x.visible | (band.columns(x) >= s.size(2) - 1), -math.inf)}),
        ("Key 0 is taken for one that does not exist.",
         {"mask": lambda s, x: s.masked_fill(~x.visible | (band.columns(x) <= 0), -math.inf)}),
        (f"Before the first key there are the last ones: negative indices count from the end; {NO_KEY}.",
         {"given": band.wrapped, "mask": lambda s, x: s.masked_fill(band.columns(x) >= s.size(2), -math.inf)}),
        (f"The keys are filled up with minus infinity, and the products are NaN or plus infinity; {NO_KEY}.",
         {"given": band.endless_keys, "mask": lambda s, x: s}),
        ("Key n is taken for one that exists; the last one is number n - 1.",
         {"mask": lambda s, x: s.masked_fill(~x.visible & (band.columns(x) != s.size(2)), -math.inf)}),
        ("Key -1 is taken for one that exists; the first one is number 0.",
         {"mask": lambda s, x: s.masked_fill(~x.visible & (band.columns(x) != -1), -math.inf)}),
        ("What exists is hidden, and what does not is shown: masked_fill fills where its mask is True.",
         {"mask": lambda s, x: s.masked_fill(x.visible, -math.inf)}),
        ("Scores where no key stands are multiplied by infinity, which keeps their sign; fill them.",
         {"mask": lambda s, x: s * torch.where(x.visible, 1.0, -math.inf)}),
        ("The sign of the scores is lost.", {"normalize": torch.abs}),
        ("The scores have gone through a sigmoid; the scores are asked.", {"normalize": torch.sigmoid}),
        ("A tuple is returned; return the scores alone.", band.returned(lambda o, *x: (o,))),
        ("Only the scores of the window are returned, one behind the other; return one row for each query, with minus infinity where "
         "there is no key.", band.returned(lambda o, *x: o[o > -math.inf])),
        ("A row begins with the first key that exists, and what is missing stands at its end; column c is key i - left + c, also "
         "where this leaves the first columns empty.",
         band.returned(lambda o, *x: torch.stack([row.roll(-int((row[0, 0] == -math.inf).cumprod(0).sum()), -1) for row in o.unbind(2)], 2))),
        ("The last column holds nothing; key i + right is inside.",
         band.returned(lambda o, *x: torch.cat([o[..., :-1], torch.full_like(o[..., -1:], -math.inf)], -1))),
        ("The first column holds nothing; key i - left is inside.",
         band.returned(lambda o, *x: torch.cat([torch.full_like(o[..., :1], -math.inf), o[..., 1:]], -1))),
        ("The keys are moved the wrong way: key i - 1 stands where key i + 1 should.",
         {"given": lambda q, k, left, right: band.wrapped(q, k, left, right, -1),
          "mask": lambda s, x: s.masked_fill((band.columns(x) < 0) | (band.columns(x) >= s.size(2)), -math.inf)}),
        ("All heads use the keys of head 0; each has its own.",
         {"given": lambda q, k, left, right: band.given(q, k[:, :1].expand_as(k), left, right)}),
        ("All heads get the scores of head 0; each has its own.", band.returned(lambda o, *x: o[:, :1].expand_as(o))),
        ("All samples get the scores of the first one; each has its own.", band.returned(lambda o, *x: o[:1].expand_as(o))),
        ("A row ends with the last key that exists, and what is missing stands at its front; column c is key i - left + c, also "
         "where this leaves the last columns empty.",
         band.returned(lambda o, *x: torch.stack([row.roll(int((row[0, 0].flip(0) == -math.inf).cumprod(0).sum()), -1) for row in o.unbind(2)], 2))),
        ("The columns of earlier keys begin at row 0; the first query that has a key so far back is further down.",
         band.returned(lambda o, q, k, left, right: torch.stack([x.roll(-max(0, left - c), -1) for c, x in enumerate(o.unbind(-1))], -1))),
        ("The query's own key is hidden; it is inside.",
         band.returned(lambda o, q, k, left, right: o.masked_fill(torch.arange(o.size(-1)) == left, -math.inf))),
        ("There is a column too many at the front: the window begins at key i - left.",
         band.reads(at=lambda i, c, left, right: i - left - 1 + c, width=lambda left, right: left + right + 2)),
        ("The first column is missing: the window begins at key i - left.",
         band.reads(at=lambda i, c, left, right: i - left + 1 + c, width=lambda left, right: left + right)),
        ("The first column is missing: the window begins at key i - left.",
         band.reads(at=lambda i, c, left, right: i - max(0, left - 1) + c, width=lambda left, right: max(0, left - 1) + 1 + right)),
        ("Samples and heads are joined to one axis; keep both.", band.returned(lambda o, *x: o.flatten(0, 1))),
        ("The logarithm of the softmax is taken; the scores are asked.", {"normalize": lambda s: s.log_softmax(-1)}),
        ("The softmax is taken; the scores are asked.", {"normalize": lambda s: s.softmax(-1)}),
        ("The softmax is taken; the scores are asked.", {"normalize": lambda s: s.softmax(-1).nan_to_num()}),
        ("The exponentials are taken; the scores are asked.", {"normalize": torch.exp}),
        ("This is the table of all pairs, with the window in it; column c of the narrow one is key i - left + c.",
         band.returned(band.in_the_wide_table)),
        ("This is the table of all pairs; of each row only the window is asked.", band.returned(lambda o, *x: band.pairs(*x)[0])),
        ("Rows and columns are exchanged; the shape is (batch, heads, n, left + 1 + right).",
         band.returned(lambda o, *x: o.mT)),
        ("The products are not added up over head_dim; a score is one number.",
         {"score": lambda x: x.query[:, :, :, None] * x.key, "mask": lambda s, x: s.masked_fill(~x.visible[..., None], -math.inf)}),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="windowed_scores",
    judge=MemoryLimited(
        Calls(band.definition, cases),
        "twice as many tokens take twice as much",
        partial(grows_linearly, measured, 128),
        # All pairs would be 1 GiB.
        Budget(lambda g: (*normal(g, *[(1, 1, 2**14, 1)] * 2), 3, 2), band.RIGHT),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
