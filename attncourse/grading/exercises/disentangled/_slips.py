"""What goes wrong where tokens meet a table of relative positions: rows, distances, heads, scales and forms."""

from collections.abc import Iterator

import torch
from torch.nn.functional import normalize

from attncourse.grading.exercise import Mistake
from attncourse.grading.exercises.disentangled._rows import Term

ENDS = "row 0 belongs to distance -span and all below, row span to distance 0, the last row to span - 1 and more"
UNSCALED = (
    "the three terms are scaled together, once they are added up. Return the products as they are"
)
SLIPS = {  # the step of a `Term`: what is said, with {words} to be filled in, and what is done instead
    "row": (
        ("The middle of the table is not added, and negative distances wrap around to its end: row span is distance 0.",
         lambda x, k: x.clamp(-k, k - 1) % (2 * k)),
        ("The middle of the table is not added: row span is distance 0.", lambda x, k: x.clamp(-k, k - 1)),
        ("The middle of the table is not added, and all negative distances read row 0: row span is distance 0.",
         lambda x, k: x.clamp(0, 2 * k - 1)),
        ("Every row is one too early, or positions are counted from 0 here and from 1 there: {ends}.", lambda x, k: (x + k - 1).clamp(0, 2 * k - 1)),
        ("Every row is one too late, or positions are counted from 0 here and from 1 there: {ends}.", lambda x, k: (x + k + 1).clamp(0, 2 * k - 1)),
        ("All the table's rows are added to the distance; half of them is the span.", lambda x, k: (x + 2 * k).clamp(0, 2 * k - 1)),
        ("Half of the span is added; half of the table's rows is the span.", lambda x, k: (x + k // 2).clamp(0, 2 * k - 1)),
        ("The last row is never read: {ends}.", lambda x, k: (x + k).clamp(0, max(2 * k - 2, 0))),
        ("Row 0 is never read: {ends}.", lambda x, k: (x + k).clamp(1, 2 * k - 1)),
        ("Neither row 0 nor the last row is read: {ends}.", lambda x, k: (x + k).clamp(1, max(2 * k - 2, 1))),
        ("Distances are not clamped, and those beyond the table's end wrap around.", lambda x, k: (x + k) % (2 * k)),
        ("Distances are not clamped; those beyond the table's end raise.", lambda x, k: x + k),
        ("Distances beyond the table's far end are clamped, but those below row 0 wrap around or raise.", lambda x, k: (x + k).clamp(max=2 * k - 1)),
        ("Distances below row 0 are clamped, but those beyond the far end raise; the last row is 2 * span - 1.", lambda x, k: (x + k).clamp(min=0)),
        ("The sign of the distance is lost: keys before the query and after it read the same row.", lambda x, k: (x.abs() + k).clamp(0, 2 * k - 1)),
        ("The row is the distance without its sign: keys before the query and after it read the same row, and the middle is not "
         "added.", lambda x, k: x.abs().clamp(max=2 * k - 1)),
        ("Keys after the query all count as distance 0; they have rows of their own, 0 to span - 1.", lambda x, k: (x.clamp(min=0) + k).clamp(0, 2 * k - 1)),
        ("Keys before the query all count as distance 0; they have rows of their own, from span + 1.", lambda x, k: (x.clamp(max=0) + k).clamp(0, 2 * k - 1)),
        ("The table is read from its end to its beginning: the distance is i - j, and its row i - j + span.",
         lambda x, k: 2 * k - 1 - (x + k).clamp(0, 2 * k - 1)),
        ("All pairs read the row of distance 0.", lambda x, k: 0 * x + k),
    ),
    "span": (
        ("Half of head_dim is taken for the span; it is half of the table's rows, size(1) // 2.", lambda t: t.size(2) // 2),
        ("The span is one too small: the table has 2 * span rows, so it is size(1) // 2.", lambda t: (t.size(1) - 1) // 2),
        ("The span is one too large: the table has 2 * span rows, so it is size(1) // 2.", lambda t: t.size(1) // 2 + 1),
        ("Half of the number of heads is taken for the span; it is half of the table's rows, size(1) // 2.", lambda t: t.size(0) // 2),
        ("The number of heads is taken for the span; it is half of the table's rows, size(1) // 2.", lambda t: t.size(0)),
    ),
    "distance": (
        ("The distance is j - i here; it is the query's position minus the key's, i - j.{paper}", lambda i, j, n, m: j - i),
        ("The row is chosen by the key's position alone; it is by the distance i - j.", lambda i, j, n, m: j + 0 * i),
        ("The row is chosen by the query's position alone; it is by the distance i - j.", lambda i, j, n, m: i + 0 * j),
        ("The row is chosen by i + j; the distance is i - j.", lambda i, j, n, m: i + j),
        ("The queries are taken for the last n of m positions; query i stands at position i.", lambda i, j, n, m: i + m - n - j),
    ),
    "table": (
        ("All heads read the table of head 0; each has its own.", lambda t: t[:1].expand_as(t)),
        ("All heads read the mean of the tables; each has its own.", lambda t: t.mean(0, keepdim=True).expand_as(t)),
        ("All heads read the sum of the tables; each has its own.", lambda t: t.sum(0, keepdim=True).expand_as(t)),
        ("A head reads the table of another head; each has its own.", lambda t: t.roll(1, 0)),
        ("A head reads the table of another head; each has its own.", lambda t: t.flip(0)),
        ("The table is reshaped to (heads, head_dim, rows), which tears its rows apart; transpose it.",
         lambda t: t.reshape(t.mT.shape).mT),
        ("No gradient flows back to the table: it is detached.", torch.Tensor.detach),
        ("The rows of the table are divided by their lengths; multiply them as they are.", lambda t: normalize(t, dim=-1)),
    ),
    "tokens": (
        ("No gradient flows back to the {token}: it is detached.", torch.Tensor.detach),
        ("The {token} of head 0 is used in all heads; each has its own.", lambda x: x[:, :1].expand_as(x)),
        ("The {token} of sample 0 is used for all samples; each has its own.", lambda x: x[:1].expand_as(x)),
        ("The {token} is averaged over the heads; each has its own.", lambda x: x.mean(1, keepdim=True).expand_as(x)),
        ("One {token} is used for all, their mean; each has its own.", lambda x: x.mean(2, keepdim=True).expand_as(x)),
        ("The {token} is divided by its length; multiply it as it is.", lambda x: normalize(x, dim=-1)),
    ),
    "finish": (
        ("The scores are divided by sqrt(head_dim); {unscaled}.", lambda s, x, t: s / x.size(-1) ** 0.5),
        ("The scores are divided by head_dim; {unscaled}.", lambda s, x, t: s / x.size(-1)),
        ("The scores are divided by sqrt(2 * head_dim); {unscaled}.", lambda s, x, t: s / (2 * x.size(-1)) ** 0.5),
        ("The scores are divided by sqrt(3 * head_dim); {unscaled}.", lambda s, x, t: s / (3 * x.size(-1)) ** 0.5),
        ("The softmax is taken; the scores are asked.", lambda s, x, t: s.softmax(-1)),
        ("The softmax is taken; the scores are asked.", lambda s, x, t: s.softmax(-2)),
        ("The scores are added up over the heads; return those of each.", lambda s, x, t: s.sum(1)),
        ("The scores are averaged over the heads; return those of each.", lambda s, x, t: s.mean(1)),
        ("Rows and columns are exchanged: rows are queries, columns are keys.{turn}", lambda s, x, t: s.mT),
        ("A causal mask is put in; the scores of all pairs are asked.",
         lambda s, x, t: s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf)),
        ("The scores of later keys are 0; the scores of all pairs are asked.", lambda s, x, t: s.tril()),
        ("Only the scores of sample 0 are returned; return all of them.", lambda s, x, t: s[0]),
        ("Only the scores of sample 0 are returned; return all of them.", lambda s, x, t: s[:1]),
        ("Only the scores of head 0 are returned; return those of each.", lambda s, x, t: s[:, 0]),
        ("The heads stand behind the queries; the axes are (batch, heads, queries, keys).", lambda s, x, t: s.transpose(1, 2)),
        ("The heads stand last; the axes are (batch, heads, queries, keys).", lambda s, x, t: s.movedim(1, -1)),
        ("Axes of size 1 are squeezed away; keep all of them.", lambda s, x, t: s.squeeze()),
        ("Samples and heads are joined to one axis; keep both.", lambda s, x, t: s.flatten(0, 1)),
        ("A tuple is returned; return the scores alone.", lambda s, x, t: (s,)),
        ("The sign of the scores is turned.", lambda s, x, t: -s),
        ("The sign of the scores is lost.", lambda s, x, t: s.abs()),
        ("Scores below 0 are set to 0; a score may be negative.", lambda s, x, t: s.clamp(min=0)),
        ("gather returns as many samples and heads as the index has: expand it to those of the products.", lambda s, x, t: s[:1, :1]),
        ("The scores are divided by the root of the table's rows; {unscaled}.", lambda s, x, t: s / t.size(1) ** 0.5),
        ("The scores are rounded to whole numbers.", lambda s, x, t: s.round()),
        ("No gradient flows back: the result is detached or made inside no_grad.", lambda s, x, t: s.detach()),
        ("The products with all rows of the table are returned; each pair picks its own row.", lambda s, x, t: x @ t.mT),
        ("The tokens are changed in place; their caller finds them changed.", lambda s, x, t: (s, x.data.mul_(2))[0]),
        ("The table is changed in place; its caller finds it changed.", lambda s, x, t: (s, t.data.mul_(2))[0]),
    ),
}  # fmt: skip


def slips(right: Term) -> Iterator[Mistake]:
    """What goes wrong with rows, tables, scales and forms, whoever is multiplied."""
    words = {
        "ends": ENDS,
        "unscaled": UNSCALED,
        "token": "key" if right.keys else "query",
        "paper": " The paper prints j - i for this term; the released code, and this exercise, read i - j." * right.keys,
        "turn": " Turn the result, once its scores are picked." * right.keys,
    }  # fmt: skip
    for step, found in SLIPS.items():
        for says, change in found:
            yield right.but(says.format(**words), **{step: change})
