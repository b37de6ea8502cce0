"""Exercise split_heads: cut the width into heads, and move the heads before the sequence."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.noticing import Noticing, moved

CALLS = (  # what is special, shape in memory, its axes in order, num_heads
    ("2 samples, 5 positions, 3 heads of 7 numbers", (2, 5, 21), (0, 1, 2), 3),
    ("1 head", (2, 3, 5), (0, 1, 2), 1),
    ("1 sample, 1 position, 4 heads of 2 numbers", (1, 1, 8), (0, 1, 2), 4),
    ("3 positions, 6 heads of 2 numbers", (2, 3, 12), (0, 1, 2), 6),
    ("3 heads of 1 number, 3 positions", (2, 3, 3), (0, 1, 2), 3),
    ("a transposed input", (2, 6, 5), (0, 2, 1), 2),
)


def cases_of(seed: int, calls: tuple) -> list[Case]:
    """Cases from a table of inputs, some in another order than they lie in memory."""
    g = seeded(seed)
    return [
        Case(what, (torch.randn(shape, generator=g).permute(axes), *rest))
        for what, shape, axes, *rest in calls
    ]


def cut(x, num_heads):
    """(batch, n, heads, head_dim), the first half of the way."""
    return x.unflatten(-1, (num_heads, -1))


def split(x, num_heads):
    return cut(x, num_heads).transpose(1, 2)


ACCEPTED = Accepted(
    unflatten_and_movedim=lambda x, h: x.unflatten(-1, (h, -1)).movedim(2, 1).contiguous(),
    permute_in_double=lambda x, h: x.double().reshape(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
    view_and_transpose=lambda x, h: x.view(*x.shape[:2], h, x.size(2) // h).transpose(1, 2),
    chunks_stacked=lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
    indexed=lambda x, h: x[:, torch.arange(x.size(1))[:, None], torch.arange(x.size(2)).view(h, 1, -1)],
)  # fmt: skip


@ACCEPTED.add
def loops(x, num_heads):
    batch, n, width = x.shape
    head_dim = width // num_heads
    out = torch.empty(batch, num_heads, n, head_dim, dtype=x.dtype)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * head_dim : (h + 1) * head_dim]
    return out


@ACCEPTED.add
def one_matrix_per_head(x, num_heads):
    select = torch.eye(x.size(-1), dtype=x.dtype).chunk(num_heads, dim=-1)
    return torch.einsum("bnw,hwd->bhnd", x, torch.stack(select))


SHARED = Mistakes(Mistake(says, answer) for says, answer in (  # multi_head_attention knows them, too
    ("The memory is only read with other sizes, (batch, heads, n, head_dim) at once, so each head gets "
     "pieces of several positions. Cut the last axis first, then transpose.",
     lambda x, h: x.reshape(len(x), h, x.size(1), -1)),
    ("The transpose comes before the cut, and the reshape then mixes positions.",
     lambda x, h: x.mT.reshape(len(x), h, x.size(1), -1)),
    ("The heads are interleaved: head h takes every num_heads-th number. Head h is one contiguous slice "
     "of the width.", lambda x, h: cut(x, x.size(-1) // h).permute(0, 3, 1, 2)),
    ("The heads come in reverse order; head 0 is the first slice.", lambda x, h: split(x, h).flip(1)),
    ("Every head holds the first slice; head h starts at h * head_dim.",
     lambda x, h: split(x, h)[:, :1].expand(-1, h, -1, -1)),
    ("Slices overlap: head h starts at number h instead of h * head_dim.",
     lambda x, h: x.unfold(-1, x.size(-1) // h, 1)[:, :, :h].transpose(1, 2)),
))  # fmt: skip
MISTAKES = SHARED + [Mistake(says, answer) for says, answer in (
    ("The transpose is missing: the heads must stand before the sequence.", cut),
    ("num_heads and head_dim are exchanged; cut the width into num_heads slices.",
     lambda x, h: split(x, x.size(-1) // h)),
    ("The heads stand before the batch; they come behind it.", lambda x, h: split(x, h).transpose(0, 1)),
    ("The heads are merged into the batch; keep four axes.", lambda x, h: split(x, h).flatten(0, 1)),
    ("The last two axes are exchanged; return (batch, heads, n, head_dim).", lambda x, h: split(x, h).mT),
    ("The heads stand last; they come behind the batch.", lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=-1)),
    ("Batch and sequence are exchanged: x is (batch, n, width).", lambda x, h: cut(x, h).permute(1, 2, 0, 3)),
    ("Every head holds the whole width; it holds only its slice.", lambda x, h: x[:, None].expand(-1, h, -1, -1)),
    ("A tuple of heads is returned; return one tensor with an axis for them.", lambda x, h: x.chunk(h, dim=-1)),
    ("squeeze() drops axes of size 1; one head, sample or position stays.", lambda x, h: split(x, h).squeeze()),
    ("No gradient flows to x: it is detached or copied by torch.tensor.", lambda x, h: split(x, h).detach()),
)]  # fmt: skip

EXERCISE = Exercise(
    name="split_heads",
    judge=Noticing(spec.split_heads, partial(cases_of, calls=CALLS), look=moved("x")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
