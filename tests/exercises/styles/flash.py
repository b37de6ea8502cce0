"""Right answers to the exercises on FlashAttention."""

import math

import numpy as np
import torch

from styles import style


@style("online_step")
def the_past_as_one_more_key(maximum, total, mixed, scores, value, visible):
    """The past is a key with the score m + log l and the value o / l."""
    seen = torch.cat([maximum[..., None], scores.masked_fill(~visible, -math.inf)], dim=-1)
    new = seen.max(dim=-1).values
    weights = torch.nan_to_num(torch.exp(seen - new[..., None]), nan=0.0)
    total = weights[..., 0] * total + weights[..., 1:].sum(-1)
    return (
        new,
        total,
        torch.einsum("bhn,bhne->bhne", weights[..., 0], mixed) + weights[..., 1:] @ value,
    )


@style("online_step")
def key_by_key(maximum, total, mixed, scores, value, visible):
    for j in range(scores.size(-1)):
        score = torch.where(visible[:, j], scores[..., j], -torch.inf)
        new = torch.maximum(maximum, score)
        past, weight = (
            torch.where(x == -torch.inf, 0, torch.exp(x - new)) for x in (maximum, score)
        )
        total, mixed = (
            total * past + weight,
            mixed * past[..., None] + weight[..., None] * value[:, :, None, j],
        )
        maximum = new
    return [maximum, total, mixed]


@style("online_step")
def through_the_log_sum_exp_in_float64(maximum, total, mixed, scores, value, visible):
    seen = scores.double() + torch.zeros(visible.shape).masked_fill(
        visible.logical_not(), -torch.inf
    )
    new = torch.stack([maximum.double(), seen.amax(-1)]).amax(0)
    finite = new.clamp(min=-1e300)
    sums = torch.logaddexp(maximum + total.log(), torch.logsumexp(seen, -1)) - finite
    weights = (seen - finite.unsqueeze(-1)).exp()
    return (
        new,
        sums.exp(),
        mixed * (maximum - finite).exp().unsqueeze(-1) + weights.matmul(value.double()),
    )


@style("merge_halves")
def maximum_and_two_exponentials(output_a, lse_a, output_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    safe = torch.where(top.isinf(), 0.0, top)
    a, b = (lse_a - safe).exp().unsqueeze(-1), (lse_b - safe).exp().unsqueeze(-1)
    total = (a + b).clamp(min=1e-30)
    kept = torch.where(a > 0, output_a, 0.0), torch.where(b > 0, output_b, 0.0)
    return (a * kept[0] + b * kept[1]) / total, safe + (a + b).squeeze(-1).log()


@style("merge_halves")
def sigmoid_of_the_difference(output_a, lse_a, output_b, lse_b):
    share = torch.sigmoid(torch.nan_to_num(lse_a - lse_b, nan=0.0))[..., None]
    parts = (lse_a, output_a), (lse_b, output_b)
    a, b = (torch.where(lse[..., None] > -math.inf, output, 0.0) for lse, output in parts)
    return b + share * (a - b), torch.logaddexp(lse_a, lse_b)


@style("merge_halves")
def softmax_of_stacked_halves(output_a, lse_a, output_b, lse_b):
    both, outputs = torch.stack([lse_a, lse_b]), torch.stack([output_a, output_b])
    empty = both == -torch.inf
    shares = both.double().softmax(0).masked_fill(empty, 0.0)
    outputs = outputs.masked_fill(empty[..., None], 0.0)
    return [(shares[..., None] * outputs).sum(0), both.logsumexp(0)]


@style("merge_halves")
def row_by_row(output_a, lse_a, output_b, lse_b):
    rows, width = [], output_a.size(-1)
    for a, x, b, y in zip(output_a.reshape(-1, width), lse_a.flatten(), output_b.reshape(-1, width),
                          lse_b.flatten(), strict=True):  # fmt: skip
        if x == -math.inf or y == -math.inf:
            nothing = torch.zeros_like(a), torch.full_like(x, -math.inf)
            rows.append((a, x) if x > -math.inf else (b, y) if y > -math.inf else nothing)
            continue
        total = torch.logsumexp(torch.stack([x, y]), 0)
        rows.append((a * torch.exp(x - total) + b * torch.exp(y - total), total))
    outputs, sums = zip(*rows, strict=True)
    return torch.stack(outputs).view_as(output_a), torch.stack(sums).view_as(lse_a)


@style("block_gradients")
def einsum(query, key, value, output, lse, grad_output):
    scale = query.shape[-1] ** -0.5
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * scale
    weights = torch.where(lse.isfinite()[..., None], torch.exp(scores - lse[..., None]), 0.0)
    inner = (
        torch.einsum("bhie,bhje->bhij", grad_output, value)
        - (grad_output * output).sum(-1)[..., None]
    )
    ds = weights * inner * scale
    return (torch.einsum("bhij,bhjd->bhid", ds, key), torch.einsum("bhij,bhid->bhjd", ds, query),
            torch.einsum("bhij,bhie->bhje", weights, grad_output))  # fmt: skip


@style("block_gradients")
def key_by_key_in_float64(query, key, value, output, lse, grad_output):
    q, d_o = query.double() / query.size(-1) ** 0.5, grad_output.double()
    lse = torch.where(lse == -math.inf, math.inf, lse.double())
    delta, dq, dk, dv = (d_o * output).sum(-1), torch.zeros_like(q), [], []
    for j in range(key.size(2)):
        k, v = key[:, :, j, None].double(), value[:, :, j, None].double()
        p = torch.exp((q * k).sum(-1) - lse)
        ds = p * ((d_o * v).sum(-1) - delta)
        dq += ds[..., None] * k / query.size(-1) ** 0.5
        dk.append((ds[..., None] * q).sum(2))
        dv.append((p[..., None] * d_o).sum(2))
    return [dq, torch.stack(dk, 2), torch.stack(dv, 2)]


@style("block_gradients")
def autograd_of_other_sums(query, key, value, output, lse, grad_output):
    """A loss with the same gradients: what belongs to the whole row is a constant in it."""
    q, k, v = (x.detach().requires_grad_() for x in (query, key, value))
    with torch.enable_grad():
        shift = lse.masked_fill(lse.isinf(), math.inf)[..., None]
        p, dp = torch.exp(q @ k.mT / q.size(-1) ** 0.5 - shift), grad_output @ v.mT
        inner = (dp - (grad_output * output).sum(-1, keepdim=True)).detach()
        return torch.autograd.grad((p * inner + p.detach() * dp).sum(), (q, k, v))


@style("repair_rescaling")
def past_as_one_more_key(query, key, value, size):
    """Output and log-sum-exp so far, merged with those of the next block."""
    grown, top, output, lse = 0, -math.inf, 0.0, torch.tensor(-math.inf)
    for k, v in zip(key.split(size, dim=-2), value.split(size, dim=-2), strict=True):
        scores = torch.einsum("bhid,bhjd->bhij", query, k) * query.shape[-1] ** -0.5
        both = torch.logaddexp(lse, scores.logsumexp(-1))
        output = (lse - both).exp()[..., None] * output + (scores - both[..., None]).exp() @ v
        grown, lse = grown + (scores.detach().amax(-1) > top).int(), both
        top = scores.detach().amax(-1).clamp(min=top)
    return output, grown


@style("repair_rescaling")
def all_scores_at_once(query, key, value, size):
    scores = (query @ key.transpose(-2, -1)).div(query.size(-1) ** 0.5)
    heights = (
        torch.stack([block.amax(-1) for block in scores.split(size, -1)], -1).cummax(-1).values
    )
    grown = 1 + (heights.diff(dim=-1) > 0).sum(-1)
    return scores.softmax(-1) @ value, grown


@style("repair_rescaling")
def scores_key_by_key(query, key, value, size):
    q, shape = query.double() / query.size(-1) ** 0.5, query.shape[:3]
    top, total, mixed = torch.full(shape, -math.inf).double(), torch.zeros(shape).double(), 0.0
    grown, block = torch.zeros(shape), None
    for j in range(key.size(2)):
        score = (q * key[:, :, j, None]).sum(-1)
        new = torch.maximum(top, score)
        if j % size == 0:
            block = torch.zeros(shape).bool()
        grown += (new > top) & ~block
        block |= new > top
        past, weight = (top - new).exp(), (score - new).exp()
        total, mixed = (
            past * total + weight,
            past[..., None] * mixed + weight[..., None] * value[:, :, j, None],
        )
        top = new
    return [mixed / total[..., None], grown]


@style("tiled_forward")
def written_into_the_output(query, key, value, first, rows, columns):
    out, lse = torch.zeros(*query.shape[:3], value.size(3)), torch.full(query.shape[:3], -math.inf)
    for a in range(0, query.size(2), rows):
        for c in range(0, key.size(2), columns):
            o, l = out[:, :, a : a + rows], lse[:, :, a : a + rows]  # noqa: E741
            hidden = torch.arange(c, min(c + columns, key.size(2))) < first[:, None, None, None]
            s = torch.einsum(
                "bhid,bhjd->bhij", query[:, :, a : a + rows], key[:, :, c : c + columns]
            )
            s = (s / math.sqrt(query.size(3))).masked_fill(hidden, -math.inf)
            both = torch.logaddexp(l, s.logsumexp(-1))
            safe = both.nan_to_num(neginf=0.0).unsqueeze(-1)
            o.copy_(
                (l.unsqueeze(-1) - safe).exp() * o + (s - safe).exp() @ value[:, :, c : c + columns]
            )
            l.copy_(both)
    return out, lse


@style("tiled_forward")
def halves_that_are_merged(query, key, value, first, rows, columns):
    """Keys are halved until a block of columns is left; queries likewise."""
    n, m = query.size(2), key.size(2)
    if n > rows:
        parts = (
            halves_that_are_merged(q, key, value, first, rows, columns)
            for q in query.split((n + 1) // 2, 2)
        )
        return [torch.cat(x, dim=2) for x in zip(*parts, strict=True)]
    if m > columns:
        halves = slice(0, m // 2), slice(m // 2, m)
        (a, x), (b, y) = (
            halves_that_are_merged(
                query, key[:, :, at], value[:, :, at], first - at.start, rows, columns
            )
            for at in halves
        )
        share = torch.sigmoid((x - y).nan_to_num(nan=0.0))[..., None]
        return share * a + (1 - share) * b, torch.logaddexp(x, y)
    scores = (query / query.size(-1) ** 0.5) @ key.mT
    scores = torch.where(torch.arange(m) >= first[:, None, None, None], scores, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


@style("tiled_forward")
def two_passes_in_float64(query, key, value, first, rows, columns):
    """The first pass over the keys finds the maxima, so that nothing is rescaled."""
    outputs, lses = [], []
    for q in (query / query.size(-1) ** 0.5).split(rows, dim=2):

        def tiles(q=q):
            for c in range(0, key.size(2), columns):
                hidden = torch.arange(c, min(c + columns, key.size(2))) < first.view(-1, 1, 1, 1)
                s = q.double() @ key[:, :, c : c + columns].double().mT
                yield s.masked_fill(hidden, -math.inf), value[:, :, c : c + columns].double()

        top = torch.full((*q.shape[:3], 1), -math.inf).double()
        for s, _ in tiles():
            top = torch.maximum(top, s.max(-1, keepdim=True)[0])
        top = top.nan_to_num(neginf=0.0)
        total = sum((s - top).exp().sum(-1, keepdim=True) for s, _ in tiles())
        outputs.append(sum((s - top).exp() @ v for s, v in tiles()) / total.clamp(min=1e-300))
        lses.append((top + total.log()).squeeze(-1))
    return torch.cat(outputs, 2), torch.cat(lses, 2)


EXACT = 32_114_688, 63_571_968
style("numbers_moved", EXACT, name="tuple_of_whole_numbers")
style("numbers_moved", list(map(float, EXACT)), name="list_of_floats")
style("numbers_moved", torch.tensor(EXACT), name="tensor")
style("numbers_moved", np.array([2048 * 321 + x * 6144 * 320 for x in (16, 32)]), name="numpy")
