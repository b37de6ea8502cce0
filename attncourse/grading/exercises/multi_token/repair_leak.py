"""Exercise repair_leak: multi-token attention that reads the future in three ways, repaired."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.multi_token._convolved import as_it_is, filled, positive
from attncourse.grading.exercises.multi_token._leaks import (
    before,
    behind,
    both_before,
    leaks_left,
    past_only,
    told,
)
from attncourse.grading.exercises.multi_token._slips import (
    HIDDEN,
    KERNELS,
    SOFTMAXES,
    WINDOWS,
    ZEROS,
    one_ahead,
    strict,
)
from attncourse.grading.exercises.multi_token._twice import BEHIND, KEPT, RIGHT, TWINS, Leaks, Twice
from attncourse.grading.inputs import far_below_zero, seeded
from attncourse.grading.observe import Case
from attncourse.spec import multi_token_attention as definition

CALLS = (  # what is special; batch, heads, n, d, e, kernel, kernel_after, gradients
    ("7 tokens", (1, 2, 7, 4, 5), (3, 3), (4, 3), False),
    *((f"7 tokens, other {what} from one on", (1, 2, 7, 4, 5), (3, 3), (4, 3), False) for what in TWINS),
    ("kernels with an even number of rows", (2, 3, 4, 3, 4), (2, 3), (2, 5), True),
    ("a kernel_after that changes nothing", (1, 3, 5, 2, 4), (3, 3), (2, 3), True),
    ("a kernel that changes nothing", (1, 2, 5, 4, 3), (2, 5), (3, 3), False),
    ("kernels of one row and of one column", (1, 2, 4, 3, 5), (1, 3), (3, 1), False),
    ("kernels larger than the table", (1, 2, 3, 4, 6), (5, 9), (4, 7), False),
    ("3 samples of one token", (3, 2, 1, 4, 5), (3, 3), (2, 3), False),
    ("large scores", (1, 2, 5, 4, 3), (2, 3), (3, 3), False),
    ("scores below -1e8", (1, 2, 4, 16, 3), (2, 3), (2, 3), False),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, d, e), first, second, gradients in CALLS:
        query, key, value = (torch.randn(b, h, n, w, generator=g) for w in (d, d, e))
        kernels = [torch.randn(h, *size, generator=g) for size in (first, second)]
        if 0 < len(found) < 1 + len(TWINS):
            at = len(found) - 1
            new, (*given, k, k_after) = (query, key, value)[at], found[0].args
            given[at] = torch.cat([given[at][:, :, :KEPT], new[:, :, KEPT:]], 2)
            query, key, value, kernels = *given, (k, k_after)
        if "changes nothing" in what:
            same = kernels["after" in what]
            same.zero_()[:, -1, same.size(2) // 2] = 1.0
        if what == "large scores":
            query = 100 * query
        if "below" in what:
            far_below_zero(query, key)
            kernels[0] = positive(kernels[0])
        found.append(Case(what, (query, key, value, *kernels), gradients=gradients))
    return found


ACCEPTED = Accepted(steps=RIGHT)


def visible(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


@ACCEPTED.add
def found_code_repaired(query, key, value, kernel, kernel_after):
    def slide(table, kernel):
        heads, c_q, c_k = kernel.shape
        slid = F.conv2d(table, kernel[:, None], padding=(c_q - 1, c_k // 2), groups=heads)
        return slid[:, :, : table.size(2)]

    later = torch.ones(query.size(2), query.size(2), dtype=torch.bool).triu(1)
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = slide(scores.masked_fill(later, 0.0), kernel).masked_fill(later, -math.inf)
    weights = slide(scores.softmax(dim=-1), kernel_after).masked_fill(later, 0.0)
    return weights @ value, weights


@ACCEPTED.add
def zeroed_within_the_slide(query, key, value, kernel, kernel_after):
    """The table is made lower triangular on its way in and on its way out."""

    def slide(table, kernel):
        _, c_q, c_k = kernel.shape
        large = F.pad(table.tril(), (c_k // 2, c_k // 2, c_q - 1, 0))
        windows = large.unfold(2, c_q, 1).unfold(3, c_k, 1)
        return (windows * kernel[:, None, None]).sum((-1, -2)).tril()

    seen = visible(query.shape[-2])
    scores = slide(torch.einsum("bhid,bhjd->bhij", query, key) / query.shape[-1] ** 0.5, kernel)
    weights = torch.softmax(torch.where(seen, scores, -1e30), -1)
    weights = slide(weights, kernel_after)
    return [torch.einsum("bhij,bhjd->bhid", weights, value), weights]


@ACCEPTED.add
def shifted_tables_in_float64(query, key, value, kernel, kernel_after):
    query, key, value = query.double(), key.double(), value.double()
    n = query.size(2)

    def slide(table, kernel):
        total = torch.zeros_like(table)
        for a, row in enumerate(kernel.double().unbind(1)):
            for b, weight in enumerate(row.unbind(1)):
                down, right = kernel.size(1) - 1 - a, kernel.size(2) // 2 - b
                moved = F.pad(table, (right, -right, down, -down)) if down < n > abs(right) else 0
                total = total + weight[:, None, None] * moved
        return total

    scores = slide(torch.tril(query @ key.mT / query.size(-1) ** 0.5), kernel)
    weights = scores.masked_fill(~visible(n), -torch.inf).softmax(-1)
    weights = torch.tril(slide(weights, kernel_after))
    return weights @ value, weights


early = Twice(second=as_it_is)
spilt = Twice(second=replace(BEHIND, hide=as_it_is))
ALONE = (*leaks_left(), *told("In both convolutions", (*KERNELS, *WINDOWS[1:]), before, behind))
MISTAKES = Mistakes(Mistake(says, replace(RIGHT, **steps)) for says, steps in ALONE)
MISTAKES += (RIGHT.but(says, **steps) for says, steps in (
    ("After the second convolution the rest of each row is scaled to the sum 1; these weights need not sum to 1.",
     {"finish": lambda w: w / w.sum(-1, keepdim=True)}),
    ("A second softmax is taken after the second convolution; the weights stay as they come out of it, with 0 for later keys.",
     behind({"hide": filled(-math.inf), "normalize": lambda w: w.softmax(-1)})),
    ("After the second convolution later keys are minus infinity; no softmax follows, so they must be 0.", behind({"hide": filled(-math.inf)})),
    *(("After the second convolution each row is divided by the sum of its weights without their signs, or cut off at 0; they "
       "stay as they come out of it.", {"finish": change}) for change in (
        lambda w: w / w.abs().sum(-1, keepdim=True), lambda w: w.clamp(min=0.0) / w.clamp(min=0.0).sum(-1, keepdim=True).clamp(min=1e-9))),
    ("A second softmax is taken after the second convolution; the weights stay as they come out of it, with 0 for later keys.",
     {"finish": lambda w: w.softmax(-1)}),
    ("A second softmax is taken after the second convolution; the weights stay as they come out of it, with 0 for later keys.",
     {"second": replace(BEHIND, hide=as_it_is), "finish": lambda w: w.softmax(-1).tril()}),
    ("The weights before the second convolution are added to those behind it; return the convolved ones alone.",
     {"second": replace(BEHIND, answer=lambda w, table, given: w + given)}),
    *(("Weights below 0 are cut off or lose their sign after the second convolution; they may be there.", {"finish": change})
      for change in (lambda w: w.clamp(min=0.0), lambda w: w.clamp(0.0, 1.0), torch.abs)),
    ("After the second convolution each query's weight for its own token is 0, too; only later keys are.", behind({"after": strict})),
    ("After the second convolution one later key of each query keeps its weight.", behind({"after": one_ahead})),
    ("The second convolution is missing.", {"second": as_it_is}),
    ("The first convolution is missing.", before({"pad": as_it_is, "slide": as_it_is})),
    ("The two kernels are exchanged: kernel comes before the softmax, kernel_after behind it.", {"kernels": lambda k, after: (after, k)}),
    ("The first kernel is used twice; kernel_after comes behind the softmax.", {"kernels": lambda k, after: (k, k)}),
    ("The scores are not divided by sqrt(head_dim).", {"score": lambda q, k: q @ k.mT}),
    ("The scores are divided by head_dim instead of its square root.", {"score": lambda q, k: q @ k.mT / q.size(-1)}),
    ("The scores are multiplied by sqrt(head_dim); divide by it.", {"score": lambda q, k: q @ k.mT * q.size(-1) ** 0.5}),
    ("The scale uses the number of tokens; it is sqrt(head_dim).", {"score": lambda q, k: q @ k.mT * k.size(-2) ** -0.5}),
    ("No gradient flows through the weights of the softmax; they are detached or made inside no_grad.",
     {"first": lambda scores, kernel: RIGHT.first(scores, kernel).detach()}),
    ("Only the output is returned; return (output, weights).", {"answer": lambda o, w: o}),
    ("The order is (weights, output); return (output, weights).", {"answer": lambda o, w: (w, o)}),
    ("The weights are transposed before they meet the values: rows are queries.", {"mix": lambda w, v: w.mT @ v}),
    ("The returned weights are detached; gradients flow through them.", {"answer": lambda o, w: (o, w.detach())}),
    *told("Before the softmax", (*ZEROS[1:], *HIDDEN, *SOFTMAXES, *KERNELS, *WINDOWS[1:]), before),
    *told("After the softmax", (*KERNELS, *WINDOWS[1:]), behind),
))  # fmt: skip


MISTAKES += [Mistake(
    "The scale uses the width of the values; it is sqrt(head_dim).",
    lambda q, k, v, *kernels: RIGHT(q * (q.size(-1) / v.size(-1)) ** 0.5, k, v, *kernels),
)]  # fmt: skip
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("The output is right, but the returned weights are those before the second convolution.",
     lambda *inputs: (RIGHT(*inputs)[0], early(*inputs)[1])),
    ("The returned weights are right, but the output is made of those before the second convolution.",
     lambda *inputs: (early(*inputs)[0], RIGHT(*inputs)[1])),
    ("The output is right, but the returned weights still have numbers for later keys.",
     lambda *inputs: (RIGHT(*inputs)[0], spilt(*inputs)[1])),
    ("The returned weights are right, but the output is made of weights that later keys still have.",
     lambda *inputs: (spilt(*inputs)[0], RIGHT(*inputs)[1])),
    ("Both convolutions come before the softmax; kernel_after comes behind it.", both_before),
    ("The kernels' weights for later keys are set to 0; they stay: a neighbour that is later than its own query is what counts as 0.",
     past_only),
)]  # fmt: skip

EXERCISE = Exercise(
    name="repair_leak",
    answer="without_leaks",
    judge=Leaks(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
