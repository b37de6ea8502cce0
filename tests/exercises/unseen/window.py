"""Windows: what hides and is not minus infinity, blocks that are too narrow, keys of zeros."""

import math

import torch
import torch.nn.functional as F

from unseen import right, wrong


def local(
    size=32,
    fill=-math.inf,
    weigh=lambda s: s.softmax(-1),
    scale=None,
    reach=lambda w: w // 2,
    least=0,
):
    """Blocks of queries, each with its neighbours."""  # fmt: skip

    def answer(query, key, value, window_size):
        rows, out = max(size, least * (window_size // 2)), []
        parts = [x.split(rows, 2) for x in (query, key, value)]
        for m, q in enumerate(parts[0]):
            k, v = (torch.cat(x[max(0, m - 1) : m + 2], 2) for x in parts[1:])
            i, j = torch.arange(q.size(2))[:, None] + m * rows, torch.arange(k.size(2))
            far = (i - j - max(0, m - 1) * rows).abs() > reach(window_size)
            scores = q @ k.mT / (scale or math.sqrt(q.size(-1)))
            out.append(weigh(scores.masked_fill(far, fill)) @ v)
        return torch.cat(out, 2)

    return answer


right("linear_window", local(least=1))
wrong("linear_window", "in a window of 141", local())
wrong("linear_window", "in a window of 141", local(size=64))
for fill in (-1e3, -1e5, -1e7):
    wrong("linear_window", "hidden keys count", local(least=1, fill=fill))
wrong("linear_window", "sum to 1 over the queries", local(least=1, weigh=lambda s: s.softmax(-2)))
wrong("linear_window", "not divided by sqrt(head_dim)", local(least=1, scale=1.0))
wrong("linear_window", "keys 0 to 8; it should read keys 2 to 6", local(least=1, reach=lambda w: w))


def padded(fill=-math.inf, scale=None, hidden=None):
    """Keys of zeros beyond both ends, and what is hidden of them."""

    def answer(query, key, left, right):
        keys = F.pad(key, (0, 0, left, right)).unfold(2, left + 1 + right, 1)
        there = F.pad(torch.ones(query.size(2)), (left, right)).unfold(0, left + 1 + right, 1)
        scores = torch.einsum("bhnd,bhndw->bhnw", query, keys) / (scale or query.size(-1) ** 0.5)
        return scores.masked_fill(hidden(scores) if hidden else there == 0, fill)

    return answer


right("windowed_scores", padded())
wrong("windowed_scores", "where 0 belongs", padded(hidden=lambda s: s == 0))
for fill in (-50.0, -5e3, -1e7, -3e38):
    wrong("windowed_scores", "where minus infinity belongs", padded(fill=fill))


def over_real_tokens(fill=-math.inf, weigh=lambda s: s.softmax(-1)):
    """A window over real tokens; what is NaN becomes 0."""

    def answer(query, key, value, window_size, present):
        at = torch.arange(query.size(2))
        near = ((at[:, None] - at).abs() <= window_size // 2) & present[:, None, None]
        scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(~near, fill)
        return (weigh(scores).masked_fill(~near, 0.0)) @ value

    return answer


right("odd_window", over_real_tokens(fill=torch.finfo(torch.float32).min))
for fill in (-1e4, -1e6, -1e8):
    wrong("odd_window", "a number of about this size", over_real_tokens(fill=fill))
wrong("odd_window", "sigmoids of the scores", over_real_tokens(weigh=torch.sigmoid))


@wrong("rolling_cache", "the new tokens are changed in place")
class TakesThemAway:
    def __init__(self, batch, heads, window, head_dim):
        self.memory, self.length = torch.zeros(batch, heads, window, head_dim), 0

    def append(self, new):
        for token in new.split(1, 2):
            self.memory[:, :, self.length % self.memory.size(2)] = token[:, :, 0]
            self.length += 1
        new.zero_()
        slots, last = torch.arange(min(self.length, self.memory.size(2))), self.length - 1
        return self.memory[:, :, : len(slots)], last - (last - slots) % self.memory.size(2)


@wrong("receptive_field", "changed in place: windows")
def empties_its_list(windows, position):
    back = kept = 0
    while windows:
        window = windows.pop()
        reach = position + 1 if window is None else min(window, position + 1)
        back, kept = back + (position if window is None else window - 1), kept + reach
    return max(0, position - back), kept


@wrong("rolling_cache", "slots for a window of")
class TwiceAsLarge:
    def __init__(self, batch, heads, window, head_dim):
        self.memory = torch.zeros(batch, heads, 2 * window, head_dim)
        self.window, self.length = window, 0

    def append(self, new):
        for token in new.unbind(2):
            self.memory[:, :, self.length % self.window] = token
            self.length += 1
        slots, last = torch.arange(min(self.length, self.window)), self.length - 1
        return self.memory[:, :, : len(slots)], last - (last - slots) % self.window
