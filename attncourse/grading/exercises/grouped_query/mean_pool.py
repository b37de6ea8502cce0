"""Exercise mean_pool: one projection of a multi-head checkpoint, made narrower."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.recipe import Recipe


def definition(x, num_heads, num_kv_heads):
    """Row by row: new head g is the mean of the old heads of its group."""
    head_dim, group = x.size(0) // num_heads, num_heads // num_kv_heads
    return torch.stack([
        sum(x[h * head_dim + i] for h in range(g * group, (g + 1) * group)) / group
        for g in range(num_kv_heads) for i in range(head_dim)
    ])  # fmt: skip


CALLS = (  # what is special, shape of the parameter, num_heads, num_kv_heads
    ("a matrix (30, 7), 6 heads to 2", (30, 7), 6, 2), ("a bias (30), 6 heads to 2", (30,), 6, 2),
    ("a matrix (24, 5), 8 heads to 2", (24, 5), 8, 2), ("a matrix (12, 12), 4 heads to 2", (12, 12), 4, 2),
    ("12 heads to 3", (24, 10), 12, 3), ("6 heads to 6: nothing changes", (12, 4), 6, 6),
    ("6 heads to 1", (12, 4), 6, 1), ("a bias (12), 4 heads to 1", (12,), 4, 1), ("head_dim 1", (6, 5), 6, 3),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [Case(what, (*normal(g, shape), *heads)) for what, shape, *heads in CALLS]


def grouped(x, num_heads, num_kv_heads):
    """(num_kv_heads, heads of a group, head_dim, ...)."""
    return x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1))


ACCEPTED = Accepted()


@ACCEPTED.add
def unflatten_and_mean(x, num_heads, num_kv_heads):
    return grouped(x, num_heads, num_kv_heads).mean(1).flatten(0, 1)


@ACCEPTED.add
def chunks(x, num_heads, num_kv_heads):
    heads = x.chunk(num_heads)
    size = num_heads // num_kv_heads
    means = [sum(heads[k : k + size]) / size for k in range(0, num_heads, size)]
    return torch.cat(means)


@ACCEPTED.add
def reshape_in_double(x, num_heads, num_kv_heads):
    x = x.double()
    d = x.shape[0] // num_heads
    shape = (num_kv_heads, num_heads // num_kv_heads, d, -1)
    return x.reshape(shape).sum(dim=1).div(num_heads // num_kv_heads).reshape(-1, *x.shape[1:])


@ACCEPTED.add
def a_matrix_that_averages(x, num_heads, num_kv_heads):
    size = num_heads // num_kv_heads
    average = torch.eye(num_kv_heads).repeat_interleave(size, dim=1) / size
    return torch.kron(average, torch.eye(x.size(0) // num_heads)) @ x


@ACCEPTED.add
def einsum(x, num_heads, num_kv_heads):
    heads = x.reshape(num_kv_heads, num_heads // num_kv_heads, -1)
    pooled = torch.einsum("grk->gk", heads) * num_kv_heads / num_heads
    return pooled.reshape(-1, *x.shape[1:])


@ACCEPTED.add
def strided_slices(x, num_heads, num_kv_heads):
    heads = x.unflatten(0, (num_heads, -1))
    size = num_heads // num_kv_heads
    return torch.stack([heads[k::size] for k in range(size)]).mean(0).flatten(0, 1)


@dataclass(frozen=True)
class Pool:
    """A right answer in two steps; two mistakes may be made at once.

    Args:
        cut: ``cut(x, num_heads, num_kv_heads)`` is (groups, heads of a group, head_dim, ...).
        pool: makes (new heads, head_dim, ...) of it.
    """

    cut: Callable = grouped
    pool: Callable = lambda x: x.mean(1)
    but = Recipe.but

    def __call__(self, x, num_heads, num_kv_heads):
        return self.pool(self.cut(x, num_heads, num_kv_heads)).flatten(0, 1)


MISTAKES = Mistakes(Pool().but(says, pool=change) for says, change in (
    ("The heads of a group are added up, not averaged.", lambda x: x.sum(1)),
    ("The first head of each group is kept; average all of them.", lambda x: x[:, 0]),
    ("The last head of each group is kept; average all of them.", lambda x: x[:, -1]),
    ("The largest number of the group is kept; average all of them.", lambda x: x.amax(1)),
    ("The smallest number of the group is kept; average all of them.", lambda x: x.amin(1)),
    ("A middle head of each group is kept; average all of them.", lambda x: x[:, x.size(1) // 2]),
    ("Only the first two heads of a group are averaged; average all of them.", lambda x: x[:, :2].mean(1)),
    ("Only the first and the last head of a group are averaged; average all of them.",
     lambda x: (x[:, 0] + x[:, -1]) / 2),
    ("All heads are averaged into one, which is repeated; every group has a mean of its own.",
     lambda x: x.mean((0, 1)).expand(len(x), *x.shape[2:])),
    ("The root of the mean square is taken; the mean is asked.", lambda x: x.square().mean(1).sqrt()),
    ("The rows are divided by their lengths first; average them as they are.",
     lambda x: torch.nn.functional.normalize(x, dim=-1).mean(1)),
    ("It is divided by the size of the group twice; a mean divides once.", lambda x: x.mean(1) / x.size(1)),
    ("The sum is divided by the size of the group less one; a mean divides by the size.",
     lambda x: x.sum(1) / max(x.size(1) - 1, 1)),
    ("The sum is divided by the size of the group plus one; a mean divides by the size.",
     lambda x: x.sum(1) / (x.size(1) + 1)),
    ("The means are repeated one after the other, once for every head of a group; return them once.",
     lambda x: x.mean(1).repeat(x.size(1), *[1] * (x.dim() - 2))),
    ("A bias is treated in another way than a matrix; both are averaged within the groups.",
     lambda x: x.mean(1) if x.dim() > 3 else x.sum(1)),
    ("A bias is treated in another way than a matrix; both are averaged within the groups.",
     lambda x: x.mean(1) if x.dim() > 3 else x[:, 0]),
    ("The median of the group is kept; average all of them.", lambda x: x.median(1).values),
    ("The heads of a group stay as they are here; average them, so that fewer rows remain.", lambda x: x.flatten(0, 1)),
    ("The rows of one head are averaged; average over the heads of a group.", lambda x: x.mean(2)),
    ("The groups are averaged with each other; average over the heads within a group.", lambda x: x.mean(0)),
    ("The mean is repeated for every head of the group; return it once.",
     lambda x: x.mean(1, keepdim=True).expand_as(x).flatten(0, 1)),
    ("head_dim and the new heads are swapped: the rows of one head belong together.", lambda x: x.mean(1).transpose(0, 1)),
    ("The new heads stand in reversed order; new head g is the mean of group g.", lambda x: x.mean(1).flip(0)),
    ("The sum is divided by the number of all heads; divide by the heads of a group.", lambda x: x.mean(1) / len(x)),
    ("The sum is divided by the number of groups; divide by the heads of a group.", lambda x: x.sum(1) / len(x)),
    ("The sum is divided by the square root of the group's size; a mean divides by the size.",
     lambda x: x.sum(1) / x.size(1) ** 0.5),
    ("The mean is rounded to float16; keep the precision of the parameter.", lambda x: x.half().mean(1).float()),
    ("No gradient flows back to the parameter: it is detached or copied out of torch.", lambda x: x.detach().mean(1)),
))  # fmt: skip
MISTAKES += [Pool().but(says, cut=cut) for says, cut in (
    ("The groups are strided: heads 0, G, 2 G ... are averaged; neighbours share a group.",
     lambda x, h, g: x.unflatten(0, (h // g, g, -1)).transpose(0, 1)),
    ("num_kv_heads is taken as the size of a group; it is the number of groups.",
     lambda x, h, g: grouped(x, h, h // g)),
    ("Neighbouring rows are averaged; the same row of different heads belongs together.",
     lambda x, h, g: x.unflatten(0, (g, -1, h // g)).transpose(1, 2)),
    ("Rows are dealt out to the heads in turn; head h owns rows h * head_dim to (h + 1) * head_dim.",
     lambda x, h, g: x.unflatten(0, (-1, h)).transpose(0, 1).unflatten(0, (g, -1))),
)]  # fmt: skip
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("The new heads are still apart; put them below each other, as (num_kv_heads * head_dim, ...).",
     lambda x, h, g: grouped(x, h, g).mean(1)),
    ("The columns of the matrix are cut into heads; the heads are blocks of rows.",
     lambda x, h, g: unflatten_and_mean(x.mT, h, g).mT),
    ("The first rows are kept, which are the first heads; average the heads of each group.",
     lambda x, h, g: x[: x.size(0) // h * g]),
    ("The last rows are kept, which are the last heads; average the heads of each group.",
     lambda x, h, g: x[x.size(0) - x.size(0) // h * g :]),
    ("A single head comes back, the mean of all; there are num_kv_heads of them.",
     lambda x, h, g: x.unflatten(0, (h, -1)).mean(0)),
    ("head_dim is taken from the width of a row; it is the number of rows divided by num_heads.",
     lambda x, h, g: x.reshape(g, h // g, x.size(-1) // h, *x.shape[1:]).mean(1).flatten(0, 1)),
    ("A bias comes back with two axes; it has one, as it came.",
     lambda x, h, g: x.reshape(g, h // g, x.size(0) // h, -1).mean(1).flatten(0, 1)),
    ("The parameter itself is changed; make a new one.",
     lambda x, h, g: (unflatten_and_mean(x, h, g), x.mul_(0))[0]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="mean_pool", judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
