"""Multi-token and differential attention: right answers in other styles."""

import math

import numpy
import torch
import torch.nn.functional as F

from attncourse.grading.exercises.multi_token import kernel_by_hand
from styles import style


@style("convolve_scores")
def a_sum_of_shifted_tables(scores, kernel):
    """Cut out a shifted table for each weight of the kernel."""
    n, m = scores.shape[2:]
    _, c_q, c_k = kernel.shape
    seen = scores.tril(m - n)
    large = F.pad(seen, (c_k // 2, c_k // 2, c_q - 1, 0))
    total = 0
    for a in range(c_q):
        for b in range(c_k):
            total = total + kernel[:, a, b, None, None] * large[:, :, a : a + n, b : b + m]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return torch.where(seen, total, -torch.inf).softmax(dim=-1)


@style("convolve_scores")
def unfolded_windows(scores, kernel):
    n, m = scores.shape[2:]
    c_q, c_k = kernel.shape[1:]
    visible = torch.arange(m) <= torch.arange(m - n, m)[:, None]
    large = F.pad(scores * visible, (c_k // 2, c_k // 2, c_q - 1, 0))
    windows = large.unfold(2, c_q, 1).unfold(3, c_k, 1)
    out = torch.einsum("bhijxy,hxy->bhij", windows, kernel)
    return F.softmax(out.masked_fill(visible.logical_not(), -1e9), -1)


@style("convolve_scores")
def padding_by_conv2d_and_cut(scores, kernel):
    """Pad on both sides, and keep the first n rows."""
    heads, c_q, c_k = kernel.shape
    n, m = scores.shape[2:]
    visible = (~torch.triu(torch.ones(n, m), m - n + 1).bool())[None, None]
    out = F.conv2d(
        torch.where(visible, scores, 0.0),
        kernel.reshape(heads, 1, c_q, c_k),
        padding=(c_q - 1, (c_k - 1) // 2),
        groups=heads,
    )[:, :, :n]
    return (out + torch.zeros(n, m).masked_fill(~visible, -math.inf)).softmax(-1)


@style("convolve_scores")
def head_by_head_in_numpy_style(scores, kernel):
    """Loops over heads and over the rows of the kernel; each row is a convolution along the keys, in float64."""
    b, heads, n, m = scores.shape
    rows = torch.arange(m - n, m).unsqueeze(-1)
    mask = torch.arange(m) > rows
    outs = []
    for h in range(heads):
        table = scores[:, h].double().masked_fill(mask, 0)
        total = torch.zeros_like(table)
        for back, weights in enumerate(kernel[h].double().flip(0)):
            if back < n:
                earlier = torch.cat([table.new_zeros(b, back, m), table[:, : n - back]], 1)
                line = earlier.reshape(-1, 1, m)
                total = total + F.conv1d(line, weights[None, None], padding=len(weights) // 2).view(
                    b, n, m
                )
        total = total.masked_fill(mask, -math.inf)
        outs.append((total - total.amax(-1, keepdim=True)).exp())
    weights = torch.stack(outs, 1)
    return weights / weights.sum(-1, keepdim=True)


@style("repair_leak")
def found_code_repaired(query, key, value, kernel, kernel_after):
    def slide(table, kernel):
        heads, c_q, c_k = kernel.shape
        slid = F.conv2d(table, kernel[:, None], padding=(c_q - 1, c_k // 2), groups=heads)
        return slid[:, :, : table.size(2)]

    later = torch.ones(query.size(2), query.size(2), dtype=torch.bool).triu(1)
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = slide(scores.masked_fill(later, 0.0), kernel).masked_fill(later, -math.inf)
    weights = slide(scores.softmax(dim=-1), kernel_after).masked_fill(later, 0.0)
    return weights @ value, weights


@style("repair_leak")
def zeroed_within_the_slide(query, key, value, kernel, kernel_after):
    """The table is made lower triangular on its way in and on its way out."""

    def slide(table, kernel):
        _, c_q, c_k = kernel.shape
        large = F.pad(table.tril(), (c_k // 2, c_k // 2, c_q - 1, 0))
        windows = large.unfold(2, c_q, 1).unfold(3, c_k, 1)
        return (windows * kernel[:, None, None]).sum((-1, -2)).tril()

    seen = torch.ones(2 * (query.shape[-2],), dtype=torch.bool).tril()
    scores = slide(torch.einsum("bhid,bhjd->bhij", query, key) / query.shape[-1] ** 0.5, kernel)
    weights = torch.softmax(torch.where(seen, scores, -1e30), -1)
    weights = slide(weights, kernel_after)
    return [torch.einsum("bhij,bhjd->bhid", weights, value), weights]


@style("repair_leak")
def shifted_tables_in_float64(query, key, value, kernel, kernel_after):
    query, key, value = query.double(), key.double(), value.double()
    n = query.size(2)

    def slide(table, kernel):
        total = torch.zeros_like(table)
        for a, row in enumerate(kernel.double().unbind(1)):
            for b, weight in enumerate(row.unbind(1)):
                down, right = kernel.size(1) - 1 - a, kernel.size(2) // 2 - b
                moved = F.pad(table, (right, -right, down, -down)) if down < n > abs(right) else 0
                total = total + weight[:, None, None] * moved
        return total

    scores = slide(torch.tril(query @ key.mT / query.size(-1) ** 0.5), kernel)
    weights = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)
    weights = torch.tril(slide(weights, kernel_after))
    return weights @ value, weights


@style("kernel_by_hand")
def from_the_end_and_from_the_middle(c_q, c_k):
    kernels, c = torch.zeros(4, c_q, c_k), c_k // 2
    kernels[[0, 2, 3], -2, c - 1] = torch.tensor([1.0, 1.0, -3.0])
    kernels[[0, 3], -1, c] = 1.0
    kernels[1, -2, c] = kernels[1, -1, c + 1] = kernels[2, -1, c + 1] = 1.0
    return kernels


@style("kernel_by_hand")
def eyes_and_padding(c_q, c_k):
    """A small table of 2 by 3 for each head, with zeros around it; whole numbers."""
    small = torch.tensor([
        [[1, 0, 0], [0, 1, 0]],
        [[0, 1, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 0, 1]],
        [[-1, 0, 0], [0, 1, 0]],
    ])  # fmt: skip
    side = (c_k - 3) // 2
    return torch.nn.functional.pad(small, (side, side, c_q - 2, 0))


@style("kernel_by_hand")
def numpy_with_other_numbers(c_q, c_k):
    k = numpy.zeros((4, c_q, c_k))
    a, b, m = c_q - 2, c_q - 1, (c_k - 1) // 2
    k[0, a, m - 1], k[0, b, m] = 0.5, 2
    k[1, a, m], k[1, b, m + 1] = 1, 0.7
    k[2, a, m - 1], k[2, b, m + 1] = 5, 5
    k[3, a, m - 1], k[3, b, m] = -0.6, 0.8
    return k


@style("kernel_by_hand")
def four_tables_that_look_away_elsewhere(c_q, c_k):
    """Other places hold small numbers; for what is asked they do not matter."""
    return [0.4 * kernel + 0.001 for kernel in kernel_by_hand.right(c_q, c_k)]


@style("differential_step")
def an_axis_for_the_two(query, key, value, lam, visible):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.size(-1))
    maps = scores.masked_fill(visible.logical_not(), float("-inf")).softmax(-1)
    maps = maps.unflatten(1, (-1, 2))
    w = maps[:, :, 0] - maps[:, :, 1] * lam
    return torch.einsum("bpij,bpje->bpie", w, value), w


@style("differential_step")
def two_outputs_subtracted(query, key, value, lam, visible):
    """The mix is linear, so outputs can be subtracted as well as maps."""
    outputs, tables = [], []
    for k in (0, 1):
        q, other = query[:, k::2], key[:, k::2]
        outputs.append(F.scaled_dot_product_attention(q, other, value, visible))
        scores = (q @ other.mT * q.size(-1) ** -0.5).masked_fill(~visible, -1e30)
        tables.append(F.softmax(scores, dim=-1))
    return outputs[0] - lam * outputs[1], tables[0] - lam * tables[1]


@style("differential_step")
def pair_by_pair(query, key, value, lam, visible):
    bias = torch.zeros(visible.shape).masked_fill(~visible, -math.inf)
    tables = []
    for p in range(value.shape[1]):
        a, b = (
            torch.softmax(
                query[:, i] @ key[:, i].transpose(1, 2) / query.shape[-1] ** 0.5 + bias, 2
            )
            for i in (2 * p, 2 * p + 1)
        )
        tables.append(torch.sub(a, lam * b))
    w = torch.stack(tables, 1)
    return [w @ value, w]


@style("differential_step")
def a_matrix_that_subtracts(query, key, value, lam, visible):
    """One row for each pair: 1 for its first head, -lam for its second."""
    pairs = value.size(1)
    scores = query @ key.mT * query.size(-1) ** -0.5
    maps = torch.where(visible, scores, -torch.inf).softmax(-1)
    signs = torch.stack([torch.ones_like(lam), -lam])
    table = torch.einsum("bpsij,s->bpij", maps.reshape(len(maps), pairs, 2, *maps.shape[2:]), signs)
    return table @ value, table


COUNTS = (936, 1_536_000_000, 1_584_000_000, 288_000_000)
style("count_multi_token", [float(x) for x in COUNTS], name="list_of_floats")
style("count_multi_token", torch.tensor(COUNTS), name="tensor")
style(
    "count_multi_token",
    numpy.array([12 * 66 + 12**2, 2 * 768 * 1e6, 2 * 12 * 66 * 1e6, 2 * 12**2 * 1e6]),
    name="numpy",
)
style(
    "count_multi_token",
    (12 * (66 + 12), *(2 * 12 * 1000**2 * each for each in (64, 66, 12))),
    name="by_the_formula",
)
