"""Exercise mean_pool: one projection of a multi-head checkpoint, made narrower."""

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(x, num_heads, num_kv_heads):
    """Row by row: new head g is the mean of the old heads of its group."""
    head_dim, group = x.size(0) // num_heads, num_heads // num_kv_heads
    rows = []
    for g in range(num_kv_heads):
        for i in range(head_dim):
            total = torch.zeros_like(x[0])
            for h in range(g * group, (g + 1) * group):
                total = total + x[h * head_dim + i]
            rows.append(total / group)
    return torch.stack(rows)


def cases(seed: int) -> list[Case]:
    """Matrices and biases; nothing to pool; everything to pool; groups as many as they are large."""
    g = torch.Generator().manual_seed(seed)

    def call(*shape, heads, to):
        return (torch.randn(shape, generator=g), heads, to)

    return [
        Case("a matrix (30, 7), 6 heads to 2", call(30, 7, heads=6, to=2)),
        Case("a bias (30), 6 heads to 2", call(30, heads=6, to=2)),
        Case("a matrix (24, 5), 8 heads to 2", call(24, 5, heads=8, to=2)),
        Case("a matrix (12, 12), 4 heads to 2", call(12, 12, heads=4, to=2)),
        Case("12 heads to 3", call(24, 10, heads=12, to=3)),
        Case("6 heads to 6: nothing changes", call(12, 4, heads=6, to=6)),
        Case("6 heads to 1", call(12, 4, heads=6, to=1)),
        Case("a bias (12), 4 heads to 1", call(12, heads=4, to=1)),
        Case("head_dim 1", call(6, 5, heads=6, to=3)),
    ]


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


MISTAKES = Mistakes()


def pooled(says):
    """A mistake in what is done with (groups, heads of a group, head_dim, ...)."""

    def register(rule):
        @MISTAKES.add(says)
        def answer(x, num_heads, num_kv_heads):
            return rule(grouped(x, num_heads, num_kv_heads))

        return rule

    return register


pooled("The heads of a group are added up, not averaged.")(lambda x: x.sum(1).flatten(0, 1))
pooled("The first head of each group is kept; average all of them.")(
    lambda x: x[:, 0].flatten(0, 1)
)
pooled("The last head of each group is kept; average all of them.")(
    lambda x: x[:, -1].flatten(0, 1)
)
pooled("The largest number of the group is kept; average all of them.")(
    lambda x: x.amax(1).flatten(0, 1)
)
pooled("The heads of a group stay as they are here; average them, so that fewer rows remain.")(
    lambda x: x.flatten(0, 2)
)
pooled("The rows of one head are averaged; average over the heads of a group.")(
    lambda x: x.mean(2).flatten(0, 1)
)
pooled("The groups are averaged with each other; average over the heads within a group.")(
    lambda x: x.mean(0).flatten(0, 1)
)
pooled("The mean is repeated for every head of the group; return it once.")(
    lambda x: x.mean(1, keepdim=True).expand_as(x).flatten(0, 2)
)
pooled(
    "The new heads are still apart; put them below each other, as (num_kv_heads * head_dim, ...)."
)(lambda x: x.mean(1))
pooled("head_dim and the new heads are swapped: the rows of one head belong together.")(
    lambda x: x.mean(1).transpose(0, 1).flatten(0, 1)
)
pooled("The sum is divided by the number of all heads; divide by the heads of a group.")(
    lambda x: x.sum(1).flatten(0, 1) / (x.size(0) * x.size(1))
)
pooled("The sum is divided by the number of groups; divide by the heads of a group.")(
    lambda x: x.sum(1).flatten(0, 1) / x.size(0)
)
pooled("The sum is divided by the square root of the group's size; a mean divides by the size.")(
    lambda x: x.sum(1).flatten(0, 1) / x.size(1) ** 0.5
)
pooled("No gradient flows back to the parameter: it is detached or copied out of torch.")(
    lambda x: x.detach().mean(1).flatten(0, 1)
)


@MISTAKES.add("The groups are strided: heads 0, G, 2 G ... are averaged; neighbours share a group.")
def strided(x, num_heads, num_kv_heads):
    return x.unflatten(0, (num_heads // num_kv_heads, num_kv_heads, -1)).mean(0).flatten(0, 1)


@MISTAKES.add("num_kv_heads is taken as the size of a group; it is the number of groups.")
def size_for_number(x, num_heads, num_kv_heads):
    return unflatten_and_mean(x, num_heads, num_heads // num_kv_heads)


@MISTAKES.add("Neighbouring rows are averaged; the same row of different heads belongs together.")
def neighbouring_rows(x, num_heads, num_kv_heads):
    return x.unflatten(0, (-1, num_heads // num_kv_heads)).mean(1)


@MISTAKES.add("The columns of the matrix are cut into heads; the heads are blocks of rows.")
def columns(x, num_heads, num_kv_heads):
    return unflatten_and_mean(x.mT, num_heads, num_kv_heads).mT


@MISTAKES.add(
    "The first rows are kept, which are the first heads; average the heads of each group."
)
def first_rows(x, num_heads, num_kv_heads):
    return x[: x.size(0) // num_heads * num_kv_heads]


@MISTAKES.add("A bias comes back with two axes; it has one, as it came.")
def bias_with_two_axes(x, num_heads, num_kv_heads):
    out = x.reshape(num_kv_heads, num_heads // num_kv_heads, x.size(0) // num_heads, -1).mean(1)
    return out.flatten(0, 1)


@MISTAKES.add("The parameter itself is changed; make a new one.")
def in_place(x, num_heads, num_kv_heads):
    out = unflatten_and_mean(x, num_heads, num_kv_heads)
    x.mul_(0)
    return out


EXERCISE = Exercise(
    name="mean_pool",
    answer="mean_pool",
    title="Convert a checkpoint",
    kind="Implement",
    points=2,
    difficulty=2,
    minutes=15,
    needs="section 'Turning the dial on a trained model' of chapter 6",
    judge=Calls(definition, cases),
    hints=(
        "Cut the rows three times: into groups, into heads of a group, into rows of a head.",
        "x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1)) does so, for a matrix and a bias "
        "alike. Which axis goes?",
        "return x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1)).mean(1).flatten(0, 1)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
