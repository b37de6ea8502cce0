"""Exercise join_groups: the transpose that leaks the future, repaired."""

import torch

from attncourse import spec
from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistake, Mistakes, cases_of
from attncourse.grading.inputs import normal, seeded


def definition(heads):
    """Query head h = g * (H / G) + r: count the heads through, then merge as in chapter 3."""
    one_by_one = [heads[:, g, r] for g in range(heads.size(1)) for r in range(heads.size(2))]
    return spec.merge_heads(torch.stack(one_by_one, dim=1))


SHAPES = (
    ("2 samples, 3 groups of 4 heads, 5 positions, head_dim 6", (2, 3, 4, 5, 6)),
    ("2 groups of 5 heads, 3 positions, head_dim 4", (1, 2, 5, 3, 4)),
    ("1 group of 3 heads", (2, 1, 3, 4, 5)),
    ("3 groups of 1 head", (2, 3, 1, 4, 5)),
    ("1 position", (2, 3, 2, 1, 4)),
    ("head_dim 1", (2, 3, 2, 4, 1)),
    ("all axes 3", (3, 3, 3, 3, 3)),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    found = [Case(what, tuple(normal(g, shape))) for what, shape in SHAPES]
    (moved,) = normal(g, (2, 4, 5, 3, 6))
    found.append(Case("another order in memory", (moved.permute(0, 3, 1, 2, 4),)))
    return [
        *found,
        Case("numbers near 100,000", (1e5 * found[0].args[0],), gradients=False),
    ]  # float16 has none


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


def ordered(*axes):
    """The axes (b, g, r, n, d) in another order, and then read row by row."""
    return lambda heads: heads.permute(*axes).reshape(len(heads), heads.size(3), -1)


LAST = "head_dim must stay the last axis; here {}.".format
MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("The groups still stand before the positions when the memory is read, so positions mix. This is the code as "
     "found: move the positions in front of the groups.", ordered(0, 1, 3, 2, 4)),
    ("Nothing is moved: the positions must come before groups and heads.", ordered(0, 1, 2, 3, 4)),
    ("The groups come behind the heads of a group, so the heads stand in strided order.", ordered(0, 3, 2, 1, 4)),
    (LAST("the heads come behind it"), ordered(0, 3, 4, 1, 2)),
    ("head_dim must stay behind the heads of a group.", ordered(0, 3, 1, 4, 2)),
    (LAST("the groups come behind it"), ordered(0, 3, 2, 4, 1)),
    (LAST("it comes before groups and heads, reversed"), ordered(0, 3, 4, 2, 1)),
    ("The positions stand between the heads of a group and the groups; they come first.", ordered(0, 2, 3, 1, 4)),
    ("The positions come last; they come right behind the samples.", ordered(0, 1, 2, 4, 3)),
    ("The heads are still apart; put them side by side in one axis of H * head_dim numbers.",
     lambda x: x.permute(0, 3, 1, 2, 4)),
    ("The groups are still apart; put all heads side by side in one axis.",
     lambda x: x.permute(0, 3, 1, 2, 4).flatten(3)),
    ("Only the groups are joined with the heads; the positions must come before them.", lambda x: x.flatten(1, 2)),
    ("The output has (heads, positions) in this order; positions come first.",
     lambda x: x.permute(0, 3, 1, 2, 4).flatten(2).transpose(1, 2)),
    ("The heads of a group are added up; each keeps its own place.", lambda x: x.sum(2).transpose(1, 2).flatten(2)),
    ("The heads of a group are averaged; each keeps its own place.", lambda x: x.mean(2).transpose(1, 2).flatten(2)),
    ("The groups are added up; each head keeps its own place.", lambda x: x.sum(1).transpose(1, 2).flatten(2)),
    ("The groups are averaged; each head keeps its own place.", lambda x: x.mean(1).transpose(1, 2).flatten(2)),
    ("Only the first group is joined; all groups belong into the output.",
     lambda x: x[:, 0].transpose(1, 2).flatten(2)),
    ("Only the first head of each group is kept; all heads belong into the output.",
     lambda x: x[:, :, 0].transpose(1, 2).flatten(2)),
    ("The heads are put below each other, along the positions; put them side by side.",
     lambda x: x.flatten(1, 3)),
    ("Samples and groups are joined; the samples keep an axis of their own.",
     lambda x: x.flatten(0, 1).transpose(1, 2).flatten(2)),
    ("The heads stand in reversed order; head 0 comes first.",
     lambda x: x.flip(1, 2).permute(0, 3, 1, 2, 4).flatten(2)),
    ("No gradient flows back: the heads are detached or copied out of torch.",
     lambda x: permute_and_flatten(x.detach())),
    ("The batch is lost: samples and positions share an axis.", lambda x: permute_and_flatten(x).flatten(0, 1)),
    ("A view of the memory is taken, which fails where the axes stand in another order: make it contiguous first, "
     "or use reshape or flatten.", lambda x: x.view(len(x), -1, *x.shape[3:]).transpose(1, 2).flatten(2)),
))  # fmt: skip


AXES = "sample", "group", "head of the group", "position", "feature"


class Moves(Calls):
    """Tells for each number of a wrong output where in ``heads`` it stood."""

    def notice(self, expected, seen, seed: int) -> str:
        case = cases_of(self, seed)[0]
        right, output, (heads,) = (
            expected[f"{case.label}, output"],
            seen.get(f"{case.label}, output"),
            case.args,
        )
        if (
            not plain(output)
            or output.shape != right.shape
            or output.dtype == torch.bfloat16
            or not difference(right, output)
        ):
            return ""
        known, at = heads.flatten().double().sort()
        place = torch.searchsorted(known, output.flatten().double()).clamp(max=len(known) - 1)
        if not torch.equal(known[place], output.flatten().double()):
            return "Numbers come out that are not in heads: they are moved here, and nothing is computed."
        stood = torch.stack(torch.unravel_index(at[place], heads.shape))
        belongs = torch.stack(
            torch.unravel_index(
                definition(torch.arange(len(at)).view(heads.shape)).flatten(), heads.shape
            )
        )
        wrong = [
            name for name, off in zip(AXES, (stood != belongs).any(1).tolist(), strict=True) if off
        ]
        first = int((stood != belongs).any(0).nonzero()[0])
        where = [list(map(int, x)) for x in (torch.unravel_index(torch.tensor(first), output.shape),
                                             stood[:, first], belongs[:, first])]  # fmt: skip
        return "Numbers come from another {}: out{} is heads{} here, and should be heads{}.".format(
            " and another ".join(wrong), *where
        )


EXERCISE = Exercise(
    name="join_groups", judge=Moves(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
