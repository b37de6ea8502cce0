"""Other masks, windows, kernels and edges: steps of `Convolved` that go wrong, each with its sentence."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from attncourse.grading.exercises.multi_token._convolved import Convolved, filled, future, slide
from attncourse.grading.mistakes import exponentials
from attncourse.grading.recipe import triangle


def corner(n, m):
    """Aligned to the first key: query i is token i."""
    return ~triangle(n, m, 0)


def strict(n, m):
    """The query's own token is hidden, too."""
    return ~triangle(n, m, m - n - 1)


def one_ahead(n, m):
    """One later key is visible."""
    return ~triangle(n, m, m - n + 1)


def past(n, m):
    """The past is hidden instead of the future."""
    return triangle(n, m, m - n)


def summed(table: Tensor, kernel: Tensor) -> Tensor:
    """The convolved tables of all heads, added up for each."""
    return slide(table, kernel).sum(1, keepdim=True).expand(-1, kernel.size(0), -1, -1)


def of_the_sum(table: Tensor, kernel: Tensor) -> Tensor:
    """Every head's kernel slides over the sum of all tables."""
    return slide(table.sum(1, keepdim=True).expand(-1, kernel.size(0), -1, -1), kernel)


def again(table: Tensor, kernel: Tensor) -> Tensor:
    """Row after row, each of the rows above as they have become."""
    above, c_q, rows = kernel.size(1) - 1, kernel.size(1), []
    for i in range(table.size(2) - above):
        window = table[:, :, i : i + c_q].clone()
        for a in range(above):
            if i + a - above >= 0:
                side = kernel.size(2) // 2
                line = torch.zeros_like(window[:, :, a])
                line[..., side : line.size(-1) - side] = rows[i + a - above][:, :, 0]
                window[:, :, a] = line
        rows.append(slide(window, kernel))
    return torch.cat(rows, 2)


def copied(table: Tensor, window: tuple) -> Tensor:
    """Outside of the table stands a copy of its edge."""
    return outside(table, window, lambda x, n: x.clamp(0, n - 1))


def wrapped(table: Tensor, window: tuple) -> Tensor:
    """Outside of the table stands its other end."""
    return outside(table, window, lambda x, n: x % n)


def outside(table, window, place):
    """The table with what ``place`` finds for rows and columns beyond its edges."""
    left, right, top, bottom = window
    rows = torch.arange(-top, table.size(2) + bottom)
    columns = torch.arange(-left, table.size(3) + right)
    return table[:, :, place(rows, table.size(2))][..., place(columns, table.size(3))]


TURNED = "is turned around; it slides over the table as it stands, the way F.conv2d applies it."
KERNELS = (
    (f"The kernel {TURNED}", {"kernel": lambda kernel: kernel.flip(1, 2)}),
    (f"The kernel's axis of queries {TURNED}", {"kernel": lambda kernel: kernel.flip(1)}),
    (f"The kernel's axis of keys {TURNED}", {"kernel": lambda kernel: kernel.flip(2)}),
    ("The kernel's axes are exchanged: (heads, c_q, c_k), rows for queries and columns for keys.",
     {"kernel": lambda kernel: kernel.mT}),
    ("All heads use the kernel of head 0; each has its own.", {"kernel": lambda kernel: kernel[:1].expand_as(kernel)}),
    ("The order of the kernels is turned around; head 0 has the first.", {"kernel": lambda kernel: kernel.flip(0)}),
    ("All heads use the mean of the kernels; each has its own.",
     {"kernel": lambda kernel: kernel.mean(0, keepdim=True).expand_as(kernel)}),
    ("A head uses the kernel of its neighbour; each has its own.", {"kernel": lambda kernel: kernel.roll(1, 0)}),
    ("The kernel is divided by its sum; its weights are used as they are.",
     {"kernel": lambda kernel: kernel / kernel.sum((1, 2), keepdim=True)}),
    ("The kernel is divided by the number of its weights, which makes a mean; its weights are used as they are.",
     {"kernel": lambda kernel: kernel / kernel[0].numel()}),
    *(("The kernel goes through a softmax; its weights are used as they are.", {"kernel": softmax}) for softmax in (
        lambda kernel: kernel.flatten(1).softmax(-1).view_as(kernel), lambda kernel: kernel.softmax(-1),
        lambda kernel: kernel.softmax(1))),
    ("Only the last row of the kernel is used: earlier queries do not count.", {"kernel": lambda kernel: kernel[:, -1:]}),
    ("Only the middle column of the kernel is used: neighbouring keys do not count.",
     {"kernel": lambda kernel: kernel[..., kernel.size(2) // 2, None]}),
    ("The heads are added up after the convolution; each keeps its own table (groups=heads).", {"slide": summed}),
    ("The heads are added up before the convolution, which F.conv2d does without groups; each keeps its own table "
     "(groups=heads).", {"slide": of_the_sum}),
    ("Rows are convolved one after the other, and the kernel meets rows above that have changed already; it meets the scores "
     "as they were.", {"slide": again}),
    ("What lies outside of the table is a copy of its edge; it counts as 0.", {"pad": copied}),
    ("What lies outside of the table is its other end; it counts as 0.", {"pad": wrapped}),
)  # fmt: skip
AHEAD = "The window is centred in the queries, so that it looks at later ones; it ends at the query itself."
WINDOWS = (
    (AHEAD, {"above": lambda c_q: (c_q // 2, (c_q - 1) // 2)}),
    (AHEAD, {"above": lambda c_q: ((c_q - 1) // 2, c_q // 2)}),
    ("The window starts at the query and looks ahead at later ones; it ends there and looks back.",
     {"above": lambda c_q: (0, c_q - 1)}),
    ("The window ends one query too early: the query itself is left out.", {"above": lambda c_q: (c_q, -1)}),
    ("The window ends one query too late: it looks at the next query.", {"above": lambda c_q: (c_q - 2, 1)}),
    ("The window ends at the key itself, as it does in the queries; in the keys it is centred.",
     {"beside": lambda c_k: (c_k - 1, 0)}),
    ("The window starts at the key; it is centred in the keys.", {"beside": lambda c_k: (0, c_k - 1)}),
    ("The window stands one key too far to the left.", {"beside": lambda c_k: (c_k // 2 + 1, c_k // 2 - 1)}),
    ("The window stands one key too far to the right.", {"beside": lambda c_k: (c_k // 2 - 1, c_k // 2 + 1)}),
)  # fmt: skip


def families(right: Convolved):
    """The mistakes with kernel and window that every convolution can have."""
    return [right.but(says, **steps) for says, steps in (*KERNELS, *WINDOWS)]


NAN = "The future is minus infinity before the convolution, and whatever touches it becomes infinite or NaN; first it must be 0."
ZEROS = (
    ("The future is not set to 0 before the convolution, so scores of later keys get into visible places.",
     {"zero": lambda scores, hidden: scores}),
    (NAN, {"zero": filled(-math.inf)}),
    (NAN, {"zero": filled(-math.inf), "normalize": lambda scores: scores.softmax(-1).nan_to_num(0.0)}),
    (NAN, {"zero": filled(-math.inf), "normalize": lambda scores: scores.nan_to_num(0.0).softmax(-1)}),
    *(("The future is a large negative number before the convolution, and is carried into visible places; first it "
       "must be 0.", {"zero": filled(value)}) for value in (-1e4, -1e9)),
    ("Before the convolution the past is set to 0, and the future is kept; it is the other way round.", {"before": past}),
    ("Before the convolution each query's score with its own token is set to 0, too; only the future is.", {"before": strict}),
    ("Before the convolution one later key of each query is kept; the last one that counts is its own token.",
     {"before": one_ahead}),
    ("A softmax is taken before the convolution, too; it slides over the scores.",
     {"zero": lambda scores, hidden: scores.masked_fill(hidden, -math.inf).softmax(-1)}),
    ("The exponentials of the scores are convolved; it slides over the scores.",
     {"zero": lambda scores, hidden: scores.exp().masked_fill(hidden, 0.0)}),
)  # fmt: skip
HIDDEN = (
    ("The future is not hidden after the convolution, and the softmax gives it weight.", {"hide": lambda scores, hidden: scores}),
    ("After the convolution the future is 0, and the softmax gives weight to a score of 0; it must be minus infinity.",
     {"hide": filled(0.0)}),
    *(("After the convolution the future is a small number, and the softmax still gives it weight; it must be minus infinity.",
       {"hide": filled(value)}) for value in (-1.0, -5.0)),
    *(("After the convolution the future is a number such as -1e4, which is more than some scores; minus infinity is less than any.",
       {"hide": filled(value)}) for value in (-1e3, -1e4, -1e5, -1e6, -1e7, -1e8)),
    ("The future is set to 0 after the softmax, so the visible weights no longer sum to 1.",
     {"hide": lambda scores, hidden: scores, "answer": lambda weights, scores, given: weights * ~future(*given.shape[2:])}),
    *(("After the convolution each query's own token is hidden, too.", {"after": strict, "normalize": normalize})
      for normalize in (lambda scores: scores.softmax(-1), lambda scores: scores.softmax(-1).nan_to_num(0.0))),
    ("After the convolution one later key is visible.", {"after": one_ahead}),
    ("After the convolution the past is hidden, and the future is visible.", {"after": past}),
)  # fmt: skip
SOFTMAXES = (
    ("The softmax runs over the queries; each query shares out its weight among the keys (dim=-1).",
     {"normalize": lambda scores: scores.softmax(-2).nan_to_num()}),
    ("The softmax runs over the heads; each query shares out its weight among the keys (dim=-1).",
     {"normalize": lambda scores: scores.softmax(1).nan_to_num()}),
    ("The softmax runs over queries and keys at once; each query has a weight of 1 to share out.",
     {"normalize": lambda scores: scores.flatten(-2).softmax(-1).view_as(scores)}),
    ("The softmax is missing: these are the convolved scores.", {"normalize": lambda scores: scores}),
    ("The softmax is taken twice.", {"normalize": lambda scores: scores.softmax(-1).softmax(-1)}),
    ("The weights are sigmoids of the scores; those of a query must sum to 1.", {"normalize": torch.sigmoid}),
    ("All weight goes to the best key; that is argmax, not softmax.",
     {"normalize": lambda scores: torch.nn.functional.one_hot(scores.argmax(-1), scores.size(-1)).to(scores.dtype)}),
    ("All visible keys get the same weight; the scores are not used.",
     {"normalize": lambda scores: torch.where(scores == -math.inf, scores, 0 * scores).softmax(-1)}),
    ("The exponential overflows on large scores; subtract the largest score of the row first, as torch.softmax does.",
     {"normalize": exponentials}),
    ("The largest of all scores is subtracted, and rows far below it vanish; subtract that of the row.",
     {"normalize": lambda scores: exponentials(scores - scores.max())}),
    ("These are the logarithms of the weights.", {"normalize": lambda scores: scores.log_softmax(-1)}),
)  # fmt: skip


def seen_by_the_query(scores, kernel):
    """Row after row: what is set to 0 in all rows is what comes later than this row's query."""
    n, m = scores.shape[2:]
    rows = [
        replace(Convolved(), before=lambda *_, i=i: torch.arange(m) > m - n + i)(scores, kernel)[
            :, :, i
        ]
        for i in range(n)
    ]
    return torch.stack(rows, 2)


def inside(scores, kernel):
    """Convolved where the whole window lies in the table; elsewhere the scores stay."""
    n, m = scores.shape[2:]
    (c_q, c_k), hidden = kernel.shape[1:], future(n, m)
    table = scores.masked_fill(hidden, 0.0)
    if n >= c_q and m >= c_k:
        found = slide(table, kernel)
        table[:, :, c_q - 1 :, c_k // 2 : m - c_k // 2] = found
    return table.masked_fill(hidden, -math.inf).softmax(-1)


WHOLE = (
    ("A neighbour counts here if its key is not later than the query in the middle; what decides is the neighbour's own query: "
     "set the future to 0 in each row by itself.", seen_by_the_query),
    ("Where the window sticks out of the table, the scores stay as they were; there the rest of it counts as 0.", inside),
)  # fmt: skip
