"""Exercise join_groups: the transpose that leaks the future, repaired."""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(heads):
    """Query head h = g * (H / G) + r: count the heads through, then merge as in chapter 3."""
    one_by_one = [heads[:, g, r] for g in range(heads.size(1)) for r in range(heads.size(2))]
    return spec.merge_heads(torch.stack(one_by_one, dim=1))


def cases(seed: int) -> list[Case]:
    """Every axis its own size; one group; groups of one; one token; other orders in memory."""
    g = torch.Generator().manual_seed(seed)

    def x(*shape):
        return torch.randn(shape, generator=g)

    return [
        Case("2 samples, 3 groups of 4 heads, 5 positions, head_dim 6", (x(2, 3, 4, 5, 6),)),
        Case("2 groups of 5 heads, 3 positions, head_dim 4", (x(1, 2, 5, 3, 4),)),
        Case("1 group of 3 heads", (x(2, 1, 3, 4, 5),)),
        Case("3 groups of 1 head", (x(2, 3, 1, 4, 5),)),
        Case("1 position", (x(2, 3, 2, 1, 4),)),
        Case("head_dim 1", (x(2, 3, 2, 4, 1),)),
        Case("all axes 3", (x(3, 3, 3, 3, 3),)),
        Case("another order in memory", (x(2, 5, 3, 4, 6).permute(0, 2, 3, 1, 4),)),
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def permute_and_flatten(heads):
    return heads.permute(0, 3, 1, 2, 4).flatten(2)


@ACCEPTED.add
def flatten_the_groups_first(heads):
    return heads.flatten(1, 2).transpose(1, 2).flatten(2)


@ACCEPTED.add
def contiguous_and_view(heads):
    b, g, r, n, d = heads.shape
    moved = heads.transpose(2, 3).transpose(1, 2)
    return moved.contiguous().view(b, n, g * r * d)


@ACCEPTED.add
def concatenate(heads):
    return torch.cat([head for group in heads.unbind(1) for head in group.unbind(1)], dim=-1)


@ACCEPTED.add
def einsum_in_double(heads):
    out = torch.einsum("bgrnd->bngrd", heads.double())
    return out.reshape(*out.shape[:2], -1)


@ACCEPTED.add
def loops(heads):
    b, g, r, n, d = heads.shape
    out = heads.new_zeros(b, n, g * r * d)
    for k in range(g):
        for j in range(r):
            start = (k * r + j) * d
            out[:, :, start : start + d] = heads[:, k, j]
    return out


MISTAKES = Mistakes()


def order(says, *axes):
    """A mistake that puts the axes (b, g, r, n, d) into another order and then reads row by row."""

    @MISTAKES.add(says)
    def answer(heads):
        b, g, r, n, d = heads.shape
        return heads.permute(*axes).reshape(b, n, g * r * d)


order(
    "The groups still stand before the positions when the memory is read, so positions mix. This is "
    "the code as found: move the positions in front of the groups.",
    0, 1, 3, 2, 4,
)  # fmt: skip
order("Nothing is moved: the positions must come before groups and heads.", 0, 1, 2, 3, 4)
order(
    "The groups come behind the heads of a group, so the heads stand in strided order.",
    0,
    3,
    2,
    1,
    4,
)
order("head_dim must stay the last axis; here the heads come behind it.", 0, 3, 4, 1, 2)
order("head_dim must stay behind the heads of a group.", 0, 3, 1, 4, 2)
order("head_dim must stay the last axis; here the groups come behind it.", 0, 3, 2, 4, 1)
order(
    "head_dim must stay the last axis; here it comes before groups and heads, reversed.",
    0,
    3,
    4,
    2,
    1,
)
order(
    "The positions stand between the heads of a group and the groups; they come first.",
    0,
    2,
    3,
    1,
    4,
)
order("The positions come last; they come right behind the samples.", 0, 1, 2, 4, 3)


@MISTAKES.add(
    "The heads are still apart; put them side by side in one axis of H * head_dim numbers."
)
def not_joined(heads):
    return heads.permute(0, 3, 1, 2, 4)


@MISTAKES.add("The groups are still apart; put all heads side by side in one axis.")
def groups_apart(heads):
    return heads.permute(0, 3, 1, 2, 4).flatten(3)


@MISTAKES.add("Only the groups are joined with the heads; the positions must come before them.")
def heads_first(heads):
    return heads.flatten(1, 2)


@MISTAKES.add("The output has (heads, positions) in this order; positions come first.")
def joined_but_transposed(heads):
    return heads.permute(0, 3, 1, 2, 4).flatten(2).transpose(1, 2)


@MISTAKES.add("The heads of a group are added up; each keeps its own place.")
def heads_summed(heads):
    return heads.sum(dim=2).transpose(1, 2).flatten(2)


@MISTAKES.add("The heads of a group are averaged; each keeps its own place.")
def heads_averaged(heads):
    return heads.mean(dim=2).transpose(1, 2).flatten(2)


@MISTAKES.add("Only the first group is joined; all groups belong into the output.")
def first_group_only(heads):
    return heads[:, 0].transpose(1, 2).flatten(2)


@MISTAKES.add("No gradient flows back: the heads are detached or copied out of torch.")
def detached(heads):
    return permute_and_flatten(heads.detach())


@MISTAKES.add("The batch is lost: samples and positions share an axis.")
def batch_flattened(heads):
    return permute_and_flatten(heads).flatten(0, 1)


EXERCISE = Exercise(
    name="join_groups",
    answer="join_groups",
    title="Join the groups without a leak",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=15,
    needs="section 'What the source documents say' of chapter 6",
    judge=Calls(definition, cases),
    hints=(
        "A reshape reads the numbers in the order of the axes. Which axis must come right behind the "
        "samples?",
        "The order must be (batch, n, G, H / G, head_dim). One transpose moves two axes only.",
        "return heads.permute(0, 3, 1, 2, 4).flatten(2)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
