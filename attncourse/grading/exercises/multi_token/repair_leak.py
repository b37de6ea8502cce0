"""Exercise repair_leak: multi-token attention that reads the future in three ways, repaired."""

import math
from dataclasses import replace
from itertools import combinations

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.multi_token._convolved import as_it_is, filled
from attncourse.grading.exercises.multi_token._slips import (
    HIDDEN,
    KERNELS,
    SOFTMAXES,
    WINDOWS,
    ZEROS,
)
from attncourse.grading.exercises.multi_token._twice import BEHIND, TWINS, Leaks, Twice
from attncourse.grading.observe import Case


def definition(query, key, value, kernel, kernel_after):
    """One pair after the other; a convolution adds up the pairs of its window whose key is not later than their query."""
    heads, n = query.shape[1:3]

    def slid(table, kernel):
        found = torch.zeros_like(table)
        c_q, c_k = kernel.shape[1:]
        for i in range(n):
            for j in range(i + 1):
                for a in range(max(c_q - 1 - i, 0), c_q):
                    row = i - (c_q - 1) + a
                    for b in range(c_k):
                        column = j - c_k // 2 + b
                        if 0 <= column <= row:
                            found[:, :, i, j] += kernel[:, a, b] * table[:, :, row, column]
        return found

    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.size(-1))
    scores, weights = slid(scores, kernel), torch.zeros_like(scores)
    for i in range(n):
        weights[:, :, i, : i + 1] = scores[:, :, i, : i + 1].softmax(-1)
    weights = slid(weights, kernel_after)
    return torch.einsum("bhij,bhje->bhie", weights, value), weights


CALLS = (  # what is special; batch, heads, n, d, e, kernel, kernel_after, gradients
    ("7 tokens", (2, 3, 7, 4, 5), (3, 5), (4, 3), False),
    *((f"7 tokens, other {what} from one on", (2, 3, 7, 4, 5), (3, 5), (4, 3), False) for what in TWINS),
    ("kernels with an even number of rows", (1, 2, 6, 3, 4), (2, 3), (2, 5), True),
    ("kernels of one row", (2, 1, 5, 4, 3), (1, 3), (1, 3), True),
    ("kernels of one column", (1, 3, 5, 2, 4), (3, 1), (5, 1), False),
    ("kernels larger than the table", (1, 2, 3, 4, 6), (5, 9), (4, 7), False),
    ("one token", (3, 2, 1, 4, 5), (3, 3), (2, 3), False),
    ("large scores", (1, 2, 5, 4, 3), (2, 3), (3, 3), False),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = torch.Generator().manual_seed(seed), []
    for what, (b, h, n, d, e), first, second, gradients in CALLS:
        query, key, value = (torch.randn(b, h, n, w, generator=g) for w in (d, d, e))
        kernels = [torch.randn(h, *size, generator=g) for size in (first, second)]
        if 0 < len(found) < 1 + len(TWINS):
            at = len(found) - 1
            new, (*given, k, k_after) = (query, key, value)[at], found[0].args
            given[at] = torch.cat([given[at][:, :, :4], new[:, :, 4:]], 2)
            query, key, value, kernels = *given, (k, k_after)
        if what == "large scores":
            query = 300 * query
        found.append(Case(what, (query, key, value, *kernels), gradients=gradients))
    return found


RIGHT = Twice()
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
def row_by_row(query, key, value, kernel, kernel_after):
    """Each row is made of the rows up to it, cut to the keys up to it."""
    n, out = query.size(2), []
    table = (query @ key.transpose(2, 3)).div(query.size(3) ** 0.5).mul(visible(n))

    def row(table, kernel, i):
        line = 0
        for back, weights in enumerate(kernel.flip(1).unbind(1)):
            if back <= i:
                line = line + F.conv1d(
                    table[:, :, i - back],
                    weights[:, None],
                    padding=weights.size(1) // 2,
                    groups=len(kernel),
                )
        return line[..., : i + 1]

    rows = [F.pad(row(table, kernel, i).softmax(-1), (0, n - 1 - i)) for i in range(n)]
    weights = torch.stack(rows, 2)
    out = [F.pad(row(weights, kernel_after, i), (0, n - 1 - i)) for i in range(n)]
    weights = torch.stack(out, 2)
    return weights @ value, weights


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


FIRST, NOTHING = RIGHT.first, {"zero": as_it_is}
SPILL = {"hide": as_it_is}
CENTRED = {"above": lambda c_q: (c_q // 2, (c_q - 1) // 2)}
FAULTS = (  # of the code as found: says, step before the softmax, step behind it
    ("The future is not set to 0 before the first convolution", NOTHING, {}),
    ("the window is centred in the queries and looks at later ones", CENTRED, CENTRED),
    ("the second convolution spreads weights to later keys, and they stay there", {}, SPILL),
)


def left(*faults):
    first, second = ({k: f for fault in faults for k, f in fault[at].items()} for at in (1, 2))
    return {"first": replace(FIRST, **first), "second": replace(BEHIND, **second)}


def before(steps):
    return {"first": replace(FIRST, **steps)}


def behind(steps):
    return {"second": replace(BEHIND, **steps)}


TWO = [
    (f"Two leaks are left. {one[0]}; {two[0]}.", left(one, two))
    for one, two in combinations(FAULTS, 2)
]
MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("All three leaks are still there, as in the code as found.", left(*FAULTS)),
    *TWO,
    ("One leak is left: the future is not set to 0 before the first convolution.", left(FAULTS[0])),
    ("One leak is left: in both convolutions the window is centred in the queries and looks at later ones.", left(FAULTS[1])),
    ("One leak is left: the second convolution spreads weights to later keys, and they stay there.", left(FAULTS[2])),
    ("The window is centred in the queries of the first convolution, and looks at later ones; the second is repaired.", before(CENTRED)),
    ("The window is centred in the queries of the second convolution, and looks at later ones; the first is repaired.", behind(CENTRED)),
    ("After the second convolution the rest of each row is scaled to the sum 1; these weights need not sum to 1.",
     {"finish": lambda w: w / w.sum(-1, keepdim=True)}),
    ("A second softmax is taken after the second convolution; the weights stay as they come out of it, with 0 for later keys.",
     behind({"hide": filled(-math.inf), "normalize": lambda w: w.softmax(-1)})),
    ("After the second convolution later keys are minus infinity; no softmax follows, so they must be 0.", behind({"hide": filled(-math.inf)})),
    ("Weights below 0 are cut off after the second convolution; they may be there.", {"finish": lambda w: w.clamp(min=0.0)}),
    ("The second convolution is missing.", {"second": lambda weights, kernel: weights}),
    ("The first convolution is missing.", {"first": lambda scores, kernel: replace(FIRST, slide=lambda table, kernel: scores)(scores, kernel)}),
    ("The two kernels are exchanged: kernel comes before the softmax, kernel_after behind it.", {"kernels": lambda k, after: (after, k)}),
    ("The first kernel is used twice; kernel_after comes behind the softmax.", {"kernels": lambda k, after: (k, k)}),
    ("The scores are not divided by sqrt(head_dim).", {"score": lambda q, k: q @ k.mT}),
    ("The scores are divided by head_dim instead of its square root.", {"score": lambda q, k: q @ k.mT / q.size(-1)}),
    ("The returned weights are those before the second convolution, and the output is, too.", {"second": lambda w, k: w}),
    ("Only the output is returned; return (output, weights).", {"answer": lambda o, w: o}),
    ("The order is (weights, output); return (output, weights).", {"answer": lambda o, w: (w, o)}),
    ("The weights are transposed before they meet the values: rows are queries.", {"mix": lambda w, v: w.mT @ v}),
    ("The returned weights are detached; gradients flow through them.", {"answer": lambda o, w: (o, w.detach())}),
    *((f"Before the softmax: {says}", before(steps)) for says, steps in (*ZEROS[1:], *HIDDEN, *SOFTMAXES, *KERNELS, *WINDOWS[2:])),
    *((f"After the softmax: {says}", behind(steps)) for says, steps in (*KERNELS, *WINDOWS[2:])),
))  # fmt: skip

EXERCISE = Exercise(
    name="repair_leak", answer="without_leaks", title="Three ways into the future", kind="Repair",
    points=3, difficulty=4, minutes=25, needs="sections 'The future is set to zero first' and 'After the softmax: rows that no longer sum to 1' of chapter 17",
    judge=Leaks(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Change the last token and see which outputs move. Do it with its query alone, with its key alone, and with its value alone: "
        "each way tells of another leak.",
        "Three questions. Which rows may the window see, if c_q is 3? What stands in the future when the first convolution "
        "comes? And what stands there after the second one, whose window is centred in the keys?",
        "Pad with (c_q - 1, c_k // 2) and keep the first n rows; set later pairs to 0 before the first convolution, to minus "
        "infinity after it, and to 0 again after the second. The rows need not sum to 1.",
    ),
)  # fmt: skip
