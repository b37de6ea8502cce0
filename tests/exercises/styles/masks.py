"""Right answers to the exercises on masks."""

import math
from fractions import Fraction

import numpy as np
import torch

from attncourse.grading.exercises.masks import mask_polarity
from styles import style


@style("causal_mask")
def lower_triangle(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril()


@style("causal_mask")
def comparison_of_positions(n, m):
    return torch.arange(m) <= torch.arange(n)[:, None]


@style("causal_mask")
def loops(n, m):
    mask = torch.zeros(n, m, dtype=torch.bool)
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


@style("causal_mask")
def not_the_future(n, m):
    return ~torch.triu(torch.ones(n, m), diagonal=1).bool()


@style("causal_mask")
def nested_lists(n, m):
    return torch.tensor([[j <= i for j in range(m)] for i in range(n)])


@style("causal_mask")
def numpy_triangle(n, m):
    return torch.from_numpy(np.tri(n, m, dtype=bool))


@style("decoder_mask")
def two_comparisons(lengths, n):
    place = torch.arange(n)
    return (place <= place[:, None]) & (place < lengths[:, None, None, None])


@style("decoder_mask")
def loop_over_samples(lengths, n):
    mask = torch.ones(len(lengths), 1, n, n).tril()
    for sample, length in zip(mask, lengths.tolist(), strict=True):
        sample[..., length:] = 0
    return mask == 1


@style("decoder_mask")
def last_visible_key(lengths, n):
    """The last key that query i may read is the smaller of i and length - 1."""
    last = torch.minimum(torch.arange(n), lengths[:, None] - 1)
    return (torch.arange(n) <= last[..., None]).unsqueeze(1)


@style("decoder_mask")
def hidden_first(lengths, n):
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    pad = torch.arange(n).expand(len(lengths), n) >= lengths.view(-1, 1)
    return torch.logical_or(future, pad.view(-1, 1, 1, n)).logical_not()


@style("empty_row")
def large_number_then_mask_again(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = scores.masked_fill(~mask, -1e9).softmax(-1) * mask
    return weights @ value, weights


@style("empty_row")
def nan_replaced_in_the_weights(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()
    return weights @ value, weights


@style("empty_row")
def filled_before_and_after(query, key, value, mask):
    scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(~mask, -torch.inf)
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)
    return weights @ value, weights


@style("empty_row")
def by_hand_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    largest = scores.masked_fill(~mask, -1e300).amax(-1, keepdim=True).detach()
    weights = torch.exp(scores.masked_fill(~mask, -torch.inf) - largest)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@style("empty_row")
def rows_one_by_one(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    rows = zip(scores.flatten(0, 2), mask.expand_as(scores).flatten(0, 2), strict=True)
    weights = [torch.zeros_like(s).masked_scatter(v, s[v].softmax(0)) for s, v in rows]
    return torch.stack(weights).view_as(scores) @ value, torch.stack(weights).view_as(scores)


@style("mask_polarity")
def place_in_a_list(mask, convention):
    hides = (1, 0, -math.inf)
    names = ["hidden", "zero_hides", "additive"]
    return mask if convention == "attend" else mask != hides[names.index(convention)]


@style("mask_polarity")
def error_of_its_own(mask, convention):
    if convention not in mask_polarity.VISIBLE:
        raise type("UnknownConvention", (ValueError,), {})(convention)
    return mask_polarity.right(mask, convention)


@style("mask_polarity")
def table_of_rules(mask, convention):
    rules = {"attend": torch.clone, "hidden": torch.logical_not, "additive": torch.isfinite}
    if convention not in (*rules, "zero_hides"):
        raise ValueError(convention)
    return rules.get(convention, lambda x: x.ne(0))(mask)


@style("mask_polarity")
def hidden_value(mask, convention):
    if convention not in ("attend", "hidden", "zero_hides", "additive"):
        raise ValueError(convention)
    return ~(mask == {"hidden": True, "additive": -math.inf}.get(convention, 0))


@style("one_mask_per_sample")
def unsqueezed_when_three_axes(query, key, value, mask):
    if mask.dim() == 3:
        mask = mask[:, None]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ value


@style("one_mask_per_sample")
def loop_over_samples_and_masks(query, key, value, mask):
    masks = mask if mask.dim() > 2 else [mask] * len(query)
    rows = []
    for q, k, v, visible in zip(query, key, value, masks, strict=True):
        scores = (q @ k.mT * q.size(-1) ** -0.5).where(visible, -torch.inf)
        rows.append(scores.softmax(-1) @ v)
    return torch.stack(rows)


@style("one_mask_per_sample")
def repeated_for_each_head(query, key, value, mask):
    b, h, n, d = query.shape
    mask = mask.expand(b, n, -1) if mask.dim() == 2 else mask
    mask = mask if mask.dim() == 4 else mask.repeat_interleave(h, dim=0).reshape(b, h, n, -1)
    scores = (query @ key.mT / d**0.5).masked_fill(~mask, -1e9)
    return torch.softmax(scores, dim=-1) @ value


@style("one_mask_per_sample")
def einsum_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    bias = bias.view(len(query), 1, *mask.shape[1:]) if mask.dim() == 3 else bias
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    return torch.einsum("bhnm,bhme->bhne", (scores + bias).softmax(-1), value)


@style("find_the_leak")
def one_noise_of_its_own_seed(model, x):
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    positions = torch.arange(x.size(1))
    kept = [torch.where((positions <= i)[:, None], x, noise) for i in positions]
    moved = [(model(y) - model(x))[:, i].abs().amax() for i, y in enumerate(kept)]
    found = (torch.stack(moved) > 1e-6).nonzero()
    return found[0] if len(found) else torch.tensor(-1)


@style("find_the_leak")
def one_position_at_a_time(model, x):
    readers = []  # the output at i moves when position j is changed
    for j in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, j] += torch.randn(x.shape[0], x.shape[2], dtype=x.dtype)
        moved = ~torch.isclose(model(changed), model(x), rtol=0, atol=1e-6)[:, :j].all(-1).all(0)
        readers += moved.nonzero().flatten().tolist()
    return np.min(readers) if readers else -1


@style("find_the_leak")
def gradients(model, x):
    x = x.clone().requires_grad_()
    for i, output in enumerate(model(x).unbind(1)):
        mixed = (output * torch.randn_like(output)).sum()
        (grad,) = torch.autograd.grad(mixed, x, retain_graph=True)
        if (grad[:, i + 1 :].abs() > 1e-9).any():
            return i
    return -1


@style("find_the_leak")
def whole_past_compared(model, x):
    for first in range(1, x.shape[1]):
        got = model(torch.cat([x[:, :first], 3 * torch.rand_like(x[:, first:])], dim=1))
        if (got - model(x))[:, :first].abs().max() > 1e-6:
            return first - 1
    return -1


style("leaking_loss", 0.2445, name="float")
style("leaking_loss", np.log(np.float64(50)) / 16, name="numpy")
style("leaking_loss", torch.tensor(50.0).log() / 16, name="tensor")
style("leaking_loss", Fraction(2445, 10000), name="fraction")
