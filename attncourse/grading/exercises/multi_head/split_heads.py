"""Exercise split_heads: cut the width into heads, and move the heads before the sequence."""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """Every axis its own size; one head; one position; more heads than positions."""
    g = torch.Generator().manual_seed(seed)

    def x(b, n, width):
        return torch.randn(b, n, width, generator=g)

    return [
        Case("2 samples, 5 positions, 3 heads of 7 numbers", (x(2, 5, 21), 3)),
        Case("1 head", (x(2, 3, 5), 1)),
        Case("1 sample, 1 position, 4 heads of 2 numbers", (x(1, 1, 8), 4)),
        Case("3 positions, 6 heads of 2 numbers", (x(2, 3, 12), 6)),
        Case("3 heads of 1 number, 3 positions", (x(2, 3, 3), 3)),
        Case("a transposed input", (x(2, 6, 5).transpose(1, 2), 2)),
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def view_and_transpose(x, num_heads):
    batch, n, width = x.shape
    return x.view(batch, n, num_heads, width // num_heads).transpose(1, 2)


@ACCEPTED.add
def unflatten_and_movedim(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).movedim(2, 1).contiguous()


@ACCEPTED.add
def chunks_stacked(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@ACCEPTED.add
def loops(x, num_heads):
    batch, n, width = x.shape
    head_dim = width // num_heads
    out = torch.empty(batch, num_heads, n, head_dim, dtype=x.dtype)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * head_dim : (h + 1) * head_dim]
    return out


@ACCEPTED.add
def gather_by_index(x, num_heads):
    columns = torch.arange(x.shape[2]).reshape(num_heads, 1, -1)
    return x[:, torch.arange(x.shape[1])[:, None], columns]


@ACCEPTED.add
def permute_in_double(x, num_heads):
    batch, n, _ = x.shape
    return torch.permute(x.double().reshape(batch, n, num_heads, -1), (0, 2, 1, 3))


@ACCEPTED.add
def one_matrix_per_head(x, num_heads):
    select = torch.eye(x.size(-1), dtype=x.dtype).chunk(num_heads, dim=-1)
    return torch.einsum("bnw,hwd->bhnd", x, torch.stack(select))


MISTAKES = Mistakes()


def cut(x, num_heads):
    """(batch, n, heads, head_dim), the first half of the way."""
    return x.unflatten(-1, (num_heads, -1))


@MISTAKES.add(
    "The memory is only read with other sizes, (batch, heads, n, head_dim) at once, so each head "
    "gets pieces of several positions. Cut the last axis first, then transpose."
)
def plain_reshape(x, num_heads):
    batch, n, width = x.shape
    return x.reshape(batch, num_heads, n, width // num_heads)


@MISTAKES.add("The transpose is missing: the heads must stand before the sequence.")
def no_transpose(x, num_heads):
    return cut(x, num_heads)


@MISTAKES.add(
    "The heads are interleaved: head h takes every num_heads-th number. Head h is one contiguous "
    "slice of the width."
)
def interleaved(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@MISTAKES.add("num_heads and head_dim are exchanged: the width is cut into num_heads heads.")
def head_dim_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).transpose(1, 2)


@MISTAKES.add("The heads stand before the batch; return (batch, heads, n, head_dim).")
def heads_first(x, num_heads):
    return cut(x, num_heads).permute(2, 0, 1, 3)


@MISTAKES.add("The heads are merged into the batch; keep four axes.")
def heads_in_the_batch(x, num_heads):
    return cut(x, num_heads).transpose(1, 2).flatten(0, 1)


@MISTAKES.add("The last two axes are exchanged: return (.., n, head_dim), not (.., head_dim, n).")
def positions_last(x, num_heads):
    return cut(x, num_heads).permute(0, 2, 3, 1)


@MISTAKES.add("The heads stand last; return (batch, heads, n, head_dim).")
def heads_last(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=-1)


@MISTAKES.add("Batch and sequence are exchanged: the input is (batch, n, width).")
def sequence_first(x, num_heads):
    return cut(x, num_heads).permute(1, 2, 0, 3)


@MISTAKES.add("The heads come out in the reverse order; head 0 is the first slice of the width.")
def heads_reversed(x, num_heads):
    return cut(x, num_heads).transpose(1, 2).flip(1)


@MISTAKES.add("Every head holds the whole width; head h holds only its own slice.")
def whole_width(x, num_heads):
    return x[:, None].expand(-1, num_heads, -1, -1)


@MISTAKES.add("Every head holds the first slice; head h starts at h * head_dim.")
def first_slice_everywhere(x, num_heads):
    return cut(x, num_heads).transpose(1, 2)[:, :1].expand(-1, num_heads, -1, -1)


@MISTAKES.add("The transpose comes before the cut, and the reshape then mixes positions.")
def transposed_before_the_cut(x, num_heads):
    batch, n, width = x.shape
    return x.transpose(1, 2).reshape(batch, num_heads, n, width // num_heads)


@MISTAKES.add("Slices overlap: head h starts at number h instead of h * head_dim.")
def overlapping(x, num_heads):
    return x.unfold(-1, x.size(-1) // num_heads, 1)[:, :, :num_heads].transpose(1, 2)


@MISTAKES.add("A tuple of heads is returned; return one tensor with an axis for the heads.")
def tuple_of_heads(x, num_heads):
    return x.chunk(num_heads, dim=-1)


@MISTAKES.add("squeeze() drops axes of size 1; one head, one sample or one position must stay.")
def squeezed(x, num_heads):
    return cut(x, num_heads).transpose(1, 2).squeeze()


@MISTAKES.add("No gradient flows back to x; it is detached or copied through torch.tensor.")
def detached(x, num_heads):
    return cut(x, num_heads).transpose(1, 2).detach()


EXERCISE = Exercise(
    name="split_heads",
    answer="split_heads",
    title="Split the width into heads",
    kind="Implement",
    points=2,
    difficulty=1,
    minutes=10,
    needs="section 'By hand' of chapter 3",
    judge=Calls(spec.split_heads, cases),
    hints=(
        "Two moves: cut the last axis in two, then exchange two axes.",
        "x.unflatten(-1, (num_heads, -1)) has shape (batch, n, num_heads, head_dim).",
        "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
