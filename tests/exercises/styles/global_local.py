"""Windows with global tokens: right answers in other styles."""

import math

import torch

from styles import style


@style("global_rule")
def loops(is_global, lengths, left, right, causal):
    batch, n = is_global.shape
    mask = torch.zeros(batch, 1, n, n, dtype=torch.bool)
    for b in range(batch):
        for i in range(lengths[b]):
            for j in range(lengths[b] if not causal else i + 1):
                if is_global[b, i] or is_global[b, j] or -left <= j - i <= right:
                    mask[b, 0, i, j] = True
    return mask


@style("global_rule")
def rows_and_columns_painted(is_global, lengths, left, right, causal):
    n = is_global.shape[1]
    window = torch.ones(n, n).tril(right).triu(-left)
    masks = window.repeat(len(lengths), 1, 1)
    for mask, marks, length in zip(masks, is_global, lengths, strict=True):
        mask[marks] = 1
        mask[:, marks] = 1
        mask[length:] = mask[:, length:] = 0
    return (masks.tril() if causal else masks).bool().unsqueeze(1)


@style("global_rule")
def sums_of_ones(is_global, lengths, left, right, causal):
    at = torch.arange(is_global.size(-1))
    g, apart = is_global.long(), at - at.unsqueeze(1)
    alive = (at < lengths.view(-1, 1)).long()
    window = (apart.clamp(-left, right) == apart).long()
    total = (g[:, :, None] + g[:, None] + window) * alive[:, :, None] * alive[:, None]
    total = total * (apart <= 0) if causal else total
    return (total > 0)[:, None]


@style("layers_needed")
def loops_over_sets(masks):
    n = masks.shape[-1]
    known = [{i} for i in range(n)]
    found = [[0 if i == j else -1 for j in range(n)] for i in range(n)]
    for layer in range(len(masks)):
        new = []
        for i in range(n):
            heard = set(known[i])
            for j in masks[layer, i].nonzero().flatten().tolist():
                heard |= known[j]
            for j in heard - known[i]:
                found[i][j] = layer + 1
            new.append(heard)
        known = new
    return torch.tensor(found)


@style("layers_needed")
def sum_of_what_is_not_known_yet(masks):
    """A pair that is not known after k layers has waited k + 1 of them."""
    n, known = masks.size(1), torch.eye(masks.size(1))
    waited = torch.zeros(n, n)
    for mask in masks:
        waited += known == 0
        known = ((mask.float() + torch.eye(n)) @ known).clamp(max=1)
    return torch.where(known > 0, waited, -1.0).int()


@style("layers_needed")
def earliest_of_all_layers(masks):
    eye = torch.eye(masks.size(-1), dtype=torch.bool)
    stages = [eye]
    for mask in masks | eye:
        stages.append((mask[:, :, None] & stages[-1][None]).any(1))
    stages = torch.stack(stages)
    return torch.where(stages[-1], stages.int().argmax(0), -1)


@style("repair_plan")
def found_code_repaired(draws, num_random):
    heads, blocks, _ = draws.shape
    at = torch.arange(blocks)
    plan = (at[:, None] - at).abs() <= 1
    plan[:, [0, -1]] = True
    plan[[0, -1]] = True
    plan = plan.repeat(heads, 1, 1)
    best = draws.masked_fill(plan, -math.inf).topk(min(num_random, blocks)).indices
    plan[torch.arange(heads)[:, None, None], at[:, None], best] = True
    return plan


@style("repair_plan")
def row_by_row(draws, num_random):
    plan = torch.zeros_like(draws)
    blocks = draws.shape[1]
    for head, numbers in zip(plan, draws.tolist(), strict=True):
        for i, row in enumerate(numbers):
            read = {0, blocks - 1, *range(max(i - 1, 0), min(i + 2, blocks))}
            if i in (0, blocks - 1):
                read = set(range(blocks))
            free = [j for j in range(blocks) if j not in read]
            free.sort(key=row.__getitem__, reverse=True)
            head[i, list(read | set(free[:num_random]))] = 1
    return plan > 0


@style("repair_plan")
def ranks_of_a_double_sort(draws, num_random):
    """The fixed blocks come first in each row's order; the next num_random follow."""
    blocks = draws.size(2)
    at = torch.arange(blocks)
    end = (at % max(blocks - 1, 1)) == 0
    fixed = end | end[:, None] | (at[:, None].sub(at).pow(2) < 2)
    order = torch.where(fixed, torch.inf, draws).argsort(dim=2, descending=True)
    return order.argsort(dim=2) < fixed.sum(1, keepdim=True) + num_random


@style("pairs_read")
def rows_at_once(n, left, right, num_global):
    i = torch.arange(num_global, n)
    low = (i - left).clamp(min=num_global)
    high = (i + right).clamp(max=n - 1)
    return (high - low + 1 + num_global).sum() + n * num_global


@style("pairs_read")
def diagonals(n, left, right, num_global):
    rest = n - num_global
    window = sum(rest - abs(d) for d in range(max(-left, -rest), min(right, rest) + 1))
    return num_global * (2 * n - num_global) + window


@style("pairs_read")
def all_pairs_but_the_far_ones(n, left, right, num_global):
    """What is not read are two triangles."""
    rest = n - num_global
    a, b = max(rest - 1 - left, 0), max(rest - 1 - right, 0)
    return n**2 - (a * a + a) // 2 - (b * b + b) // 2
