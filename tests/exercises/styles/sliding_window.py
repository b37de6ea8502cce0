"""Sliding windows: right answers in other styles."""

import math

import torch
import torch.nn.functional as F

from styles import style


@style("windowed_scores")
def unfolded(query, key, left, right):
    there = F.pad(torch.ones(query.size(2)), (left, right)).unfold(0, left + 1 + right, 1)
    keys = F.pad(key, (0, 0, left, right)).unfold(2, left + 1 + right, 1)
    scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / math.sqrt(query.size(-1))
    return scores.masked_fill(there == 0, -math.inf)


@style("windowed_scores")
def column_by_column(query, key, left, right):
    n, scores = query.size(2), []
    for c in range(-left, right + 1):
        mine, others = max(0, -c), max(0, c)
        here = (query[:, :, mine : max(0, n - c)] * key[:, :, others : max(0, n + c)]).sum(-1)
        before = min(n, mine)
        scores.append(F.pad(here, (before, n - before - here.size(-1)), value=-math.inf))
    return torch.stack(scores, dim=-1) * query.size(-1) ** -0.5


@style("windowed_scores")
def row_by_row(query, key, left, right):
    rows, n = [], query.size(2)
    for i in range(n):
        first, last = max(0, i - left), min(n, i + right + 1)
        row = query[:, :, i : i + 1] @ key[:, :, first:last].mT
        row = row[:, :, 0] / math.sqrt(query.size(3))
        rows.append(F.pad(row, (first - i + left, i + right + 1 - last), value=float("-inf")))
    return torch.stack(rows, 2)


@style("odd_window")
def fused(query, key, value, window_size, present):
    n = query.size(-2)
    ones = torch.ones(n, n, dtype=torch.bool)
    ones = ones.triu(-(window_size // 2)).tril(window_size // 2)
    return F.scaled_dot_product_attention(query, key, value, ones & present[:, None, None])


@style("odd_window")
def nan_replaced(query, key, value, window_size, present):
    at = torch.arange(query.size(2))
    close = ((at[:, None] - at).abs() <= window_size // 2) & present[:, None, None]
    scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(~close, -math.inf)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ value


@style("odd_window")
def sums_of_exponentials(query, key, value, window_size, present):
    n = query.size(2)
    hidden = torch.ones(n, n).triu(window_size // 2 + 1).bool()
    hidden = (hidden | hidden.T) | ~present.unsqueeze(1).unsqueeze(1)
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(query.size(3))
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(hidden, 0)
    return weights @ value / weights.sum(-1, keepdim=True).clamp(min=1e-30)


@style("odd_window")
def lowest_and_then_zero(query, key, value, window_size, present):
    i = torch.arange(query.size(2))
    allowed = ((i.view(-1, 1) - i).abs() <= window_size / 2) & present[:, None, None, :]
    scores = torch.where(allowed, query @ key.mT * query.shape[-1] ** -0.5, -1e30)
    return (scores.softmax(-1) * allowed) @ value


@style("odd_window")
def query_by_query(query, key, value, window_size, present):
    """One sample and one query after the other, with the keys that are left."""
    reach, rows = window_size // 2, []
    for b in range(len(query)):
        for i in range(query.size(2)):
            j = torch.arange(max(0, i - reach), min(query.size(2), i + reach + 1))
            j = j[present[b, j]]
            scores = query[b, :, i : i + 1] @ key[b][:, j].mT / query.size(-1) ** 0.5
            rows.append(torch.softmax(scores, -1) @ value[b][:, j])
    return torch.cat(rows, 1).unflatten(1, (len(query), -1)).transpose(0, 1)


@style("linear_window")
def blocks(query, key, value, window_size):
    """Some queries, and all keys that any of them may read."""
    n, reach, size, out = query.size(2), window_size // 2, 32, []
    for a in range(0, n, size):
        first, last = max(0, a - reach), min(n, a + size + reach)
        i, j = torch.arange(a, min(a + size, n))[:, None], torch.arange(first, last)
        scores = query[:, :, a : a + size] @ key[:, :, first:last].mT / query.size(-1) ** 0.5
        weights = scores.masked_fill((i - j).abs() > reach, -math.inf).softmax(-1)
        out.append(weights @ value[:, :, first:last])
    return torch.cat(out, dim=2)


@style("linear_window")
def fused_blocks(query, key, value, window_size):
    reach, n = window_size // 2, query.size(2)
    size, out = max(16, reach), []
    for a in range(0, n, size):
        near = slice(max(0, a - reach), a + size + reach)
        at = torch.arange(n)
        mask = (at[a : a + size, None] - at[near]).abs() <= reach
        q, k, v = query[:, :, a : a + size], key[:, :, near], value[:, :, near]
        out.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    return torch.cat(out, -2)


@style("linear_window")
def unfolded_values(query, key, value, window_size):
    r = window_size // 2
    pad, width = (0, 0, r, r), 2 * r + 1
    there = F.pad(torch.ones(query.size(2)), (r, r)).unfold(0, width, 1) > 0
    keys, values = (F.pad(x, pad).unfold(2, width, 1) for x in (key, value))
    scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / math.sqrt(query.size(-1))
    weights = torch.softmax(scores.masked_fill(~there, -torch.inf), dim=-1)
    return torch.einsum("bhnw,bhnew->bhne", weights, values)


@style("linear_window")
def slices_of_each_query(query, key, value, window_size):
    r, rows = window_size // 2, []
    for i in range(query.size(2)):
        k, v = (x[:, :, max(0, i - r) : i + r + 1] for x in (key, value))
        scores = query[:, :, i : i + 1] @ k.transpose(-1, -2) / math.sqrt(k.size(-1))
        rows.append(scores.softmax(-1) @ v)
    return torch.cat(rows, dim=2)


@style("linear_window")
def online_over_distances(query, key, value, window_size):
    """One distance after the other, with the sums of an online softmax."""
    n, r = query.size(2), window_size // 2
    at = torch.arange(n)
    top = torch.full(query.shape[:3], -torch.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(value)
    for x in sorted(range(-r, r + 1), key=abs):  # itself first, so that the maximum is finite
        j = (at + x).clamp(0, n - 1)
        scores = (query * key[:, :, j]).sum(-1) / query.size(-1) ** 0.5
        scores = scores.masked_fill((at + x != j), -math.inf)
        new = torch.maximum(top, scores)
        old, weight = torch.exp(top - new), torch.exp(scores - new)
        total, top = total * old + weight, new
        mixed = mixed * old[..., None] + weight[..., None] * value[:, :, j]
    return mixed / total[..., None]


@style("receptive_field")
def layer_by_layer(windows, position):
    first = position
    for window in reversed(windows):
        first = 0 if window is None else max(first - window + 1, 0)
    kept = 0
    for window in windows:
        kept += position + 1 if window is None or window > position + 1 else window
    return [first, kept]


@style("receptive_field")
def full_is_infinite(windows, position):
    wide = torch.tensor([float("inf") if w is None else w for w in windows])
    first = (position - (wide - 1).sum()).clamp(min=0)
    return torch.stack([first, wide.clamp(max=position + 1).sum()]).long()


@style("receptive_field")
def full_is_as_long_as_the_text(windows, position):
    n = position + 1
    w = [n if x is None else min(x, n) for x in windows]
    return n - min(n, sum(w) - len(w) + 1), sum(w)


@style("receptive_field")
def by_a_table_of_reads(windows, position):
    """Who reads whom, as a boolean row that each layer widens; long texts by the sums."""
    if position > 10_000:
        return layer_by_layer(windows, position)
    heard, at = torch.arange(position + 1) == position, torch.arange(position + 1)
    for window in windows:
        first = int(heard.nonzero()[0])
        heard = at > (-1 if window is None else first - window)
    held = [len(range(position + 1)[-window if window else None :]) for window in windows]
    return int(heard.nonzero()[0]), sum(held)


@style("rolling_cache")
class TokenByToken:
    def __init__(self, batch, heads, window, head_dim):
        self.memory = torch.zeros(batch, heads, window, head_dim)
        self.positions, self.length = [None] * window, 0

    def append(self, new):
        for token in new.unbind(2):
            slot = self.length % len(self.positions)
            self.memory[:, :, slot] = token
            self.positions[slot] = self.length
            self.length += 1
        n = min(self.length, len(self.positions))
        return self.memory[:, :, :n], self.positions[:n]


@style("rolling_cache")
class SequenceFirst:
    def __init__(self, batch, heads, window, head_dim):
        self.rows = torch.full((window, batch, heads, head_dim), torch.nan, dtype=torch.float64)
        self.at, self.length = torch.full((window,), -1), torch.tensor(0)

    def append(self, new):
        n, window = new.size(2), len(self.rows)
        positions = torch.arange(int(self.length), int(self.length) + n)[-window:]
        self.rows[positions % window] = new[:, :, -window:].permute(2, 0, 1, 3).double()
        self.at[positions % window] = positions
        self.length = self.length + n
        there = int((self.at >= 0).sum())
        return self.rows[:there].permute(1, 2, 0, 3), self.at[:there].clone()


@style("rolling_cache")
class TwoPieces:
    """What does not fit behind the last token goes to the front."""

    def __init__(self, batch, heads, window, head_dim):
        self.memory, self.length = torch.zeros(batch, heads, window, head_dim), 0

    def append(self, new):
        window = self.memory.size(2)
        if new.size(2) > window:
            self.length += new.size(2) - window
            new = new[:, :, -window:]
        slot, n = self.length % window, new.size(2)
        room = min(n, window - slot)
        self.memory[:, :, slot : slot + room] = new[:, :, :room]
        self.memory[:, :, : n - room] = new[:, :, room:]
        self.length += n
        if self.length < window:
            return self.memory[:, :, : self.length], torch.arange(self.length)
        turns, newest = divmod(self.length - 1, window)
        slots = torch.arange(window)
        before = slots + (turns - 1) * window
        return self.memory, torch.where(slots > newest, before, slots + turns * window)
