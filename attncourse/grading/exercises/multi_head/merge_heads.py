"""Exercise merge_heads: the reshape that forgets the transpose, repaired."""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """Every axis its own size; one head; one position; a transposed input as attention makes it."""
    g = torch.Generator().manual_seed(seed)

    def x(*shape):
        return torch.randn(shape, generator=g)

    return [
        Case("2 samples, 3 heads, 5 positions, head_dim 7", (x(2, 3, 5, 7),)),
        Case("1 head", (x(2, 1, 3, 5),)),
        Case("1 sample, 1 position, 4 heads, head_dim 2", (x(1, 4, 1, 2),)),
        Case("heads that were split by a transpose", (x(2, 5, 3, 4).transpose(1, 2),)),
        Case("more heads than positions, head_dim 1", (x(2, 5, 3, 1),)),
        Case("as many heads as positions", (x(2, 3, 3, 4),)),
        Case("the last two axes transposed", (x(2, 3, 4, 5).transpose(2, 3),)),
        Case("another order in memory", (x(2, 4, 3, 5).permute(0, 2, 3, 1),)),
        Case("1 head of 1 number", (x(2, 1, 3, 1),)),
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def transpose_and_flatten(heads):
    return heads.transpose(1, 2).flatten(2)


@ACCEPTED.add
def contiguous_and_view(heads):
    batch, num_heads, n, head_dim = heads.shape
    return heads.permute(0, 2, 1, 3).contiguous().view(batch, n, num_heads * head_dim)


@ACCEPTED.add
def concatenate(heads):
    return torch.cat(list(heads.unbind(dim=1)), dim=-1)


@ACCEPTED.add
def einsum_and_reshape(heads):
    out = torch.einsum("bhnd->bnhd", heads.double())
    return out.reshape(*out.shape[:2], -1)


@ACCEPTED.add
def loops(heads):
    batch, num_heads, n, head_dim = heads.shape
    out = heads.new_zeros(batch, n, num_heads * head_dim)
    for h in range(num_heads):
        for d in range(head_dim):
            out[:, :, h * head_dim + d] = heads[:, h, :, d]
    return out


@ACCEPTED.add
def stack_and_flatten(heads):
    return torch.stack([heads[:, h] for h in range(heads.size(1))], dim=2).flatten(start_dim=-2)


MISTAKES = Mistakes()


@MISTAKES.add(
    "The heads still stand before the positions when the memory is read row by row, so positions "
    "mix. This is the code as found: transpose first."
)
def as_found(heads):
    batch, num_heads, n, head_dim = heads.shape
    return heads.reshape(batch, n, num_heads * head_dim)


@MISTAKES.add("view cannot cross a transpose; call .contiguous() first, or use reshape or flatten.")
def view_after_transpose(heads):
    batch, num_heads, n, head_dim = heads.shape
    return heads.transpose(1, 2).view(batch, n, num_heads * head_dim)


@MISTAKES.add(
    "The wrong axes are exchanged: positions and head_dim instead of heads and positions."
)
def wrong_transpose(heads):
    batch, num_heads, n, head_dim = heads.shape
    return heads.transpose(2, 3).reshape(batch, n, num_heads * head_dim)


@MISTAKES.add("The positions stand last before the reshape, so positions mix.")
def positions_last(heads):
    batch, num_heads, n, head_dim = heads.shape
    return heads.permute(0, 1, 3, 2).transpose(1, 2).reshape(batch, n, num_heads * head_dim)


@MISTAKES.add(
    "The heads are interleaved: number 0 of every head, then number 1. Write head 0 in full first."
)
def interleaved(heads):
    return heads.permute(0, 2, 3, 1).flatten(2)


@MISTAKES.add("The heads are added; put them side by side.")
def added(heads):
    return heads.sum(dim=1)


@MISTAKES.add("The heads are averaged; put them side by side.")
def averaged(heads):
    return heads.mean(dim=1)


@MISTAKES.add("Only the first head is returned.")
def first_head(heads):
    return heads[:, 0]


@MISTAKES.add("The heads are strung along the sequence; put them side by side in the width.")
def along_the_sequence(heads):
    return heads.flatten(1, 2)


@MISTAKES.add("The result is (batch, width, n); the positions come before the width.")
def width_before_positions(heads):
    return heads.transpose(2, 3).flatten(1, 2)


@MISTAKES.add("The heads keep their own axis; flatten (heads, head_dim) into one.")
def not_flattened(heads):
    return heads.transpose(1, 2)


@MISTAKES.add("The batch is flattened as well; the result has three axes.")
def batch_flattened(heads):
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)


@MISTAKES.add("The heads come out in the reverse order; head 0 fills the first numbers.")
def reversed_heads(heads):
    return heads.flip(1).transpose(1, 2).flatten(2)


@MISTAKES.add("Batch and sequence are exchanged; return (batch, n, width).")
def sequence_first(heads):
    return heads.permute(2, 0, 1, 3).flatten(2)


@MISTAKES.add("squeeze() drops axes of size 1; one sample or one position must stay.")
def squeezed(heads):
    return heads.transpose(1, 2).flatten(2).squeeze()


@MISTAKES.add("No gradient flows back to the heads; they are detached.")
def detached(heads):
    return heads.detach().transpose(1, 2).flatten(2)


EXERCISE = Exercise(
    name="merge_heads",
    answer="merge_heads",
    title="Merge the heads",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'By hand' of chapter 3",
    judge=Calls(spec.merge_heads, cases),
    hints=(
        "A reshape reads the numbers in the order in which they lie. Which axis moves fastest?",
        "Next to each other must come: all numbers of head 0 at position 0, then head 1, still "
        "at position 0. So the heads must stand right before head_dim.",
        "return heads.transpose(1, 2).flatten(2)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
