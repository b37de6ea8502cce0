"""Exercise merge_heads: the reshape that forgets the transpose, repaired."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.multi_head.split_heads import cases
from attncourse.grading.noticing import Noticing, moved


def definition(heads):
    """`spec.merge_heads`, whose argument is called as in the notebook."""
    return spec.merge_heads(heads)


CALLS = (  # what is special, shape in memory, its axes in order
    ("2 samples, 3 heads, 5 positions, head_dim 7", (2, 3, 5, 7), (0, 1, 2, 3)),
    ("1 sample, 1 position, 4 heads, head_dim 2", (1, 4, 1, 2), (0, 1, 2, 3)),
    ("heads that were split by a transpose", (2, 5, 3, 4), (0, 2, 1, 3)),
    ("1 head", (2, 1, 3, 5), (0, 1, 2, 3)),
    ("more heads than positions, head_dim 1", (2, 5, 3, 1), (0, 1, 2, 3)),
    ("as many heads as positions", (2, 3, 3, 4), (0, 1, 2, 3)),
    ("the last two axes transposed", (2, 3, 4, 5), (0, 1, 3, 2)),
    ("another order in memory", (2, 4, 3, 5), (0, 2, 3, 1)),
    ("1 head of 1 number", (2, 1, 3, 1), (0, 1, 2, 3)),
)


def merge(heads):
    return heads.transpose(1, 2).flatten(2)


ACCEPTED = Accepted(
    transpose_and_flatten=merge,
    contiguous_and_view=lambda x: x.permute(0, 2, 1, 3).contiguous().view(len(x), x.size(2), -1),
    concatenate=lambda x: torch.cat(list(x.unbind(dim=1)), dim=-1),
    einsum_in_double=lambda x: torch.einsum("bhnd->bnhd", x.double()).reshape(len(x), x.size(2), -1),
    stack_and_flatten=lambda x: torch.stack([*x.unbind(1)], dim=2).flatten(start_dim=-2),
)  # fmt: skip


@ACCEPTED.add
def loops(heads):
    batch, num_heads, n, head_dim = heads.shape
    out = heads.new_zeros(batch, n, num_heads * head_dim)
    for h in range(num_heads):
        for d in range(head_dim):
            out[:, :, h * head_dim + d] = heads[:, h, :, d]
    return out


def read(heads, n):
    """The numbers in this order, cut after the positions."""
    return heads.reshape(len(heads), n, -1)


SHARED = Mistakes(Mistake(says, answer) for says, answer in (  # multi_head_attention knows them, too
    ("The heads still stand before the positions when the memory is read row by row, so positions mix: "
     "transpose first.", lambda x: read(x, x.size(2))),
    ("view cannot cross a transpose; call .contiguous() first, or use reshape or flatten.",
     lambda x: x.transpose(1, 2).view(len(x), x.size(2), -1)),
    ("The wrong axes are exchanged: positions and head_dim instead of heads and positions.",
     lambda x: read(x.mT, x.size(2))),
    ("The positions stand last before the reshape, so positions mix.",
     lambda x: read(x.permute(0, 3, 1, 2), x.size(2))),
    ("The heads are interleaved: number 0 of every head, then number 1. Write head 0 in full first.",
     lambda x: x.permute(0, 2, 3, 1).flatten(2)),
    ("The heads come out in the reverse order; head 0 fills the first numbers.",
     lambda x: merge(x.flip(1))),
))  # fmt: skip
MISTAKES = SHARED + [Mistake(says, answer) for says, answer in (
    ("The heads are added; put them side by side.", lambda x: x.sum(1)),
    ("The heads are averaged; put them side by side.", lambda x: x.mean(1)),
    ("Only the first head is returned.", lambda x: x[:, 0]),
    ("The heads are strung along the sequence; put them side by side in the width.",
     lambda x: x.flatten(1, 2)),
    ("The result is (batch, width, n); the positions come before the width.",
     lambda x: x.mT.flatten(1, 2)),
    ("The heads keep their own axis; flatten (heads, head_dim) into one.", lambda x: x.transpose(1, 2)),
    ("The batch is flattened as well; the result has three axes.", lambda x: merge(x).flatten(0, 1)),
    ("Batch and sequence are exchanged; return (batch, n, width).", lambda x: merge(x).transpose(0, 1)),
    ("squeeze() drops axes of size 1; one sample or one position must stay.",
     lambda x: merge(x).squeeze()),
    ("No gradient flows back to the heads; they are detached.", lambda x: merge(x).detach()),
)]  # fmt: skip

EXERCISE = Exercise(
    name="merge_heads",
    judge=Noticing(definition, partial(cases_of, calls=CALLS), look=moved("heads")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
