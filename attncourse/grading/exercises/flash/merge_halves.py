"""Exercise merge_halves: two results over different keys become one, also where a half saw nothing."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.mistakes import detached
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe
from attncourse.grading.told import Several


def definition(output_a, lse_a, output_b, lse_b):
    """Row by row: each half counts with the exponential of its lse, and one that saw nothing does not count."""
    outputs, sums = torch.zeros_like(output_a), torch.full_like(lse_a, -math.inf)
    for at in torch.cartesian_prod(*map(torch.arange, lse_a.shape)).tolist():
        halves = [
            (lse[*at], out[*at])
            for lse, out in ((lse_a, output_a), (lse_b, output_b))
            if lse[*at] > -math.inf
        ]
        if halves:
            highest = max(lse for lse, _ in halves).detach()
            sizes = [torch.exp(lse - highest) for lse, _ in halves]
            outputs[*at] = sum(
                size * out for size, (_, out) in zip(sizes, halves, strict=True)
            ) / sum(sizes)
            sums[*at] = highest + torch.log(sum(sizes))
    return outputs, sums


CALLS = (  # what is special, b h n e, how loud, which halves are empty in some rows
    ("2 samples, 3 heads, 4 queries, values 5 wide", (2, 3, 4, 5), 1, ""),
    ("the first half is empty in some rows", (2, 2, 5, 3), 1, "a"),
    ("the second half is empty in some rows", (3, 2, 4, 6), 1, "b"),
    ("each half is empty somewhere, and both in a row", (1, 3, 7, 4), 1, "abc"),
    ("log-sum-exps far from 0", (2, 3, 5, 2), 300, ""),
    ("outputs near 100,000", (2, 1, 3, 4), 2, ""),
    ("1 query, values 1 wide", (3, 2, 1, 1), 1, ""),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """An output of a half that is empty is what the memory held: infinity, or another number."""
    g, found = seeded(seed), []
    for what, (b, h, n, e), loud, empty in CALLS:
        output_a, lse_a, output_b, lse_b = normal(
            g, (b, h, n, e), (b, h, n), (b, h, n, e), (b, h, n)
        )
        lse_a, lse_b = loud * lse_a, loud * lse_b
        rows = torch.randperm(n, generator=g)
        for name, row in zip("abc", rows.tolist(), strict=False):
            for half, output, lse in ("a", output_a, lse_a), ("b", output_b, lse_b):
                if name in empty and name in (half, "c"):
                    lse[..., row], output[0, :, row], output[1:, :, row] = -math.inf, math.inf, 7e4
        if "100,000" in what:  # float16 has no such numbers
            output_a, output_b = 1e5 * output_a, 1e5 * output_b
        found.append(
            Case(what, (output_a, lse_a, output_b, lse_b), gradients=loud == 1 and not empty)
        )
    return found


@dataclass(frozen=True)
class Merge:
    """The merge in steps, each of which somebody gets wrong."""

    floor: Callable = lambda lse: lse
    clean: Callable = lambda output, lse: output.masked_fill(lse[..., None] == -math.inf, 0.0)
    join: Callable = torch.logaddexp
    shift: Callable = lambda lse, a, b: lse.masked_fill(lse == -math.inf, 0.0)
    share: Callable = lambda part, shift: torch.exp(part - shift)
    pair: Callable = lambda a, b: (a, b)
    mix: Callable = lambda a, output_a, b, output_b: (
        a[..., None] * output_a + b[..., None] * output_b
    )
    returned: Callable = lambda lse, a, b: lse
    answer: Callable = lambda output, lse, *empty: (output, lse)
    but = Recipe.but

    def __call__(self, output_a, lse_a, output_b, lse_b):
        empty = lse_a == -math.inf, lse_b == -math.inf
        lse_a, lse_b = self.floor(lse_a), self.floor(lse_b)
        lse = self.join(lse_a, lse_b)
        shift = self.shift(lse, lse_a, lse_b)
        shares = self.pair(self.share(lse_a, shift), self.share(lse_b, shift))
        output = self.mix(
            shares[0], self.clean(output_a, lse_a), shares[1], self.clean(output_b, lse_b)
        )
        lse = self.returned(lse, lse_a, lse_b)
        return self.answer(output, lse, *empty)


RIGHT = Merge()
ACCEPTED = Accepted(steps=RIGHT)


@ACCEPTED.add
def maximum_and_two_exponentials(output_a, lse_a, output_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    safe = torch.where(top.isinf(), 0.0, top)
    a, b = (lse_a - safe).exp().unsqueeze(-1), (lse_b - safe).exp().unsqueeze(-1)
    total = (a + b).clamp(min=1e-30)
    kept = torch.where(a > 0, output_a, 0.0), torch.where(b > 0, output_b, 0.0)
    return (a * kept[0] + b * kept[1]) / total, safe + (a + b).squeeze(-1).log()


@ACCEPTED.add
def sigmoid_of_the_difference(output_a, lse_a, output_b, lse_b):
    share = torch.sigmoid(torch.nan_to_num(lse_a - lse_b, nan=0.0))[..., None]
    parts = (lse_a, output_a), (lse_b, output_b)
    a, b = (torch.where(lse[..., None] > -math.inf, output, 0.0) for lse, output in parts)
    return b + share * (a - b), torch.logaddexp(lse_a, lse_b)


@ACCEPTED.add
def softmax_of_stacked_halves(output_a, lse_a, output_b, lse_b):
    both, outputs = torch.stack([lse_a, lse_b]), torch.stack([output_a, output_b])
    empty = both == -torch.inf
    shares = both.double().softmax(0).masked_fill(empty, 0.0)
    outputs = outputs.masked_fill(empty[..., None], 0.0)
    return [(shares[..., None] * outputs).sum(0), both.logsumexp(0)]


@ACCEPTED.add
def row_by_row(output_a, lse_a, output_b, lse_b):
    rows, width = [], output_a.size(-1)
    for a, x, b, y in zip(output_a.reshape(-1, width), lse_a.flatten(), output_b.reshape(-1, width),
                          lse_b.flatten(), strict=True):  # fmt: skip
        if x == -math.inf or y == -math.inf:
            nothing = torch.zeros_like(a), torch.full_like(x, -math.inf)
            rows.append((a, x) if x > -math.inf else (b, y) if y > -math.inf else nothing)
            continue
        total = torch.logsumexp(torch.stack([x, y]), 0)
        rows.append((a * torch.exp(x - total) + b * torch.exp(y - total), total))
    outputs, sums = zip(*rows, strict=True)
    return torch.stack(outputs).view_as(output_a), torch.stack(sums).view_as(lse_a)


def unless(empty, output):
    return output.masked_fill(empty[..., None], 0.0)


def in_place(output_a, lse_a, output_b, lse_b):
    output, lse = RIGHT(output_a, lse_a, output_b, lse_b)
    return output_a.copy_(output.detach()), lse


AS_IT_IS = lambda output, lse: output  # noqa: E731


def other_half(output_a, lse_a, output_b, lse_b):
    output, lse = RIGHT(output_a, lse_a, output_b, lse_b)
    return torch.where((lse_a == -math.inf)[..., None], output_b, output), lse


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The outputs are averaged; each counts by the share exp(its lse - the lse of both).",
     {"mix": lambda a, x, b, y: (x + y) / 2}),
    ("The outputs are added up; each counts by the share exp(its lse - the lse of both).",
     {"mix": lambda a, x, b, y: x + y}),
    ("The shares are exchanged: each half is weighed by the share of the other.", {"pair": lambda a, b: (b, a)}),
    ("The two shares are exp(lse) as they are, so they do not sum to 1; subtract the lse of both.",
     {"shift": lambda lse, a, b: torch.zeros_like(lse)}),
    ("The larger lse is subtracted, and the shares are not divided by their sum; subtract the lse of both.",
     {"shift": lambda lse, a, b: torch.maximum(a, b).masked_fill(lse == -math.inf, 0.0)}),
    ("The shares are 1 over what they should be: exp(its lse - the lse of both), not the other way round.",
     {"share": lambda part, shift: torch.exp(shift - part)}),
    ("The exponential is missing in the shares.", {"share": lambda part, shift: part - shift}),
    ("The shares are lse over the sum of both lse; an lse is a logarithm, take exponentials.",
     {"share": lambda part, shift: part,
      "mix": lambda a, x, b, y: (a[..., None] * x + b[..., None] * y) / (a + b)[..., None]}),
    ("All weight goes to the half with the larger lse; the other one counts, too.",
     {"pair": lambda a, b: ((a >= b).float(), (a < b).float())}),
    ("Only the first half is returned; the second one counts, too.",
     {"mix": lambda a, x, b, y: x, "join": lambda a, b: a}),
    ("The outputs are averaged; each counts by the share exp(its lse - the lse of both).",
     {"clean": AS_IT_IS, "mix": lambda a, x, b, y: (x + y) / 2}),
    ("The outputs are added up; each counts by the share exp(its lse - the lse of both).",
     {"clean": AS_IT_IS, "mix": lambda a, x, b, y: x + y}),
    *(("The shares are exp(lse) over their sum, which is 0 / 0 or overflows where an lse is far from 0; subtract the lse "
       "of both first.", {"share": lambda part, shift: part.exp(), "join": lambda a, b: torch.log(a.exp() + b.exp()),
                          "mix": lambda a, x, b, y: (a[..., None] * x + b[..., None] * y) / (a + b)[..., None], **more})
      for more in ({}, {"clean": AS_IT_IS})),
    ("The shares are exp(one lse - the other); subtract the lse of both.", {"pair": lambda a, b: (a / b, b / a)}),
    ("The shares are its lse over the lse of both; an lse is a logarithm, take exp of the difference.",
     {"share": lambda part, shift: part / shift}),
    ("The larger lse, which was subtracted, is not added to the lse of both.",
     {"returned": lambda lse, a, b: (lse - torch.maximum(a, b)).nan_to_num(nan=-math.inf)}),
    *((says, steps) for says, join in (
        ("The two lse are added; the sums of which they are the logarithms are: log(exp(a) + exp(b)).", torch.add),
        ("The two lse are averaged; what adds up is exp(lse).", lambda a, b: (a + b) / 2),
        ("The larger lse is kept as that of both; it is log(exp(a) + exp(b)).", torch.maximum),
        ("Powers of 2 are taken; an lse is a natural logarithm.", torch.logaddexp2),
        ("exp overflows where an lse is large, and all is lost where it is far below 0; use torch.logaddexp, or "
         "subtract the larger one first.", lambda a, b: torch.log(a.exp() + b.exp())),
    ) for steps in ({"join": join}, {"returned": lambda lse, a, b, join=join: join(a, b)})),
    *(("A number such as -1e4 stands for minus infinity: an empty half then counts where both are empty.",
       {"floor": lambda lse, fill=fill: lse.clamp(min=fill)})
      for fill in (-1e4, -1e9, -1e30)),
))  # fmt: skip
MISTAKES += [RIGHT.but(says, **steps) for says, steps in (
    ("What an empty half holds as its output is used: 0 times infinity is NaN; take 0 instead.",
     {"clean": lambda output, lse: output}),
    ("NaN is replaced by 0 after the sum, which loses the half that is not empty; replace the output of the empty one "
     "before.", {"clean": lambda output, lse: output,
                 "mix": lambda a, x, b, y: (a[..., None] * x + b[..., None] * y).nan_to_num(0.0, 0.0, 0.0)}),
    ("A row that is empty in both halves gets NaN, from infinity minus infinity; it gets 0 and minus infinity.",
     {"shift": lambda lse, a, b: lse}),
    ("A row that is empty in both halves has the lse 0 here; log(0) is minus infinity.",
     {"answer": lambda o, lse, *e: (o, lse.masked_fill(lse == -math.inf, 0.0))}),
    ("A row with one empty half is 0 here; it is what the other half says.",
     {"answer": lambda o, lse, a, b: (unless(a | b, o), lse)}),
    ("Where a half is empty the other one is lost: everything is nothing.",
     {"answer": lambda o, lse, a, b: (unless(a | b, o), lse.masked_fill(a | b, -math.inf))}),
    ("Only the output is returned; return (output, lse).", {"answer": lambda o, lse, *e: o}),
    ("Only the lse is returned; return (output, lse).", {"answer": lambda o, lse, *e: lse}),
    ("The lse comes first; return (output, lse).", {"answer": lambda o, lse, *e: (lse, o)}),
    ("The sum of the exponentials is returned; return its logarithm.", {"answer": lambda o, lse, *e: (o, lse.exp())}),
    ("The lse keeps an axis of size 1 at the end; return (batch, heads, n).",
     {"answer": lambda o, lse, *e: (o, lse[..., None])}),
    ("The lse is in base 2; it is a natural logarithm.", {"answer": lambda o, lse, *e: (o, lse / math.log(2))}),
    ("Axes of size 1 are squeezed away; keep all of them.", {"answer": lambda o, lse, *e: (o.squeeze(), lse.squeeze())}),
    ("No gradient flows back: the result is detached or made inside no_grad.",
     {"answer": lambda o, lse, *e: detached((o, lse))}),
    ("No gradient flows back through the lse that is returned; it is detached.",
     {"answer": lambda o, lse, *e: (o, lse.detach())}),
    ("No gradient flows through the shares; they are detached.", {"pair": lambda a, b: (a.detach(), b.detach())}),
)]  # fmt: skip
MISTAKES += [
    Mistake("The first output is overwritten; its caller finds it changed.", in_place),
    Mistake(
        "A row that is empty in both halves gets what the memory of a half holds; its output is 0.",
        other_half,
    ),
]

EXERCISE = Exercise(
    name="merge_halves",
    judge=Several(definition, cases, names=("the output", "the lse")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
