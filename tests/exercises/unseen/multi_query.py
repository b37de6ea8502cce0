"""Multi-query attention: counts, factors, masks and weights, layers that store something else, steps that copy or change."""

import math

import torch
import torch.nn.functional as F

from unseen import right, wrong

ONE_HEAD = ", and the biases are right"
for says, count in (  # of the width, the head's width, the bias and the heads
    ("Only the widest layer is wrong", lambda d, w, b, h: float(torch.tensor((d + b) * 2 * (d + w), dtype=torch.float32))),
    ("Only the widest layer is wrong", lambda d, w, b, h: ((d + b) * 2 * (d + w) + 2**31) % 2**32 - 2**31),
    ("weights are right, and the biases are counted as 3 D", lambda d, w, b, h: 2 * d * (d + w) + b * 3 * d),
    ("the biases are counted as 1.", lambda d, w, b, h: 2 * d * (d + w) + b),
    ("the biases are counted as 2 W.", lambda d, w, b, h: 2 * d * (d + w) + 2 * b * w),
    ("2 D^2 + 2 D W + 1, and the biases are counted as 2 D + 2 W - 1", lambda d, w, b, h: (d + b) * 2 * (d + w) + (not b)),
    (f"2 D^2 + 2 D W + 2 D{ONE_HEAD}", lambda d, w, b, h: 2 * d * (d + w) + 2 * d + b * 2 * (d + w)),
    (f"2 D^2 + 2 D W + 1{ONE_HEAD}", lambda d, w, b, h: (d + b) * 2 * (d + w) + 1),
    ("counted as 3 D^2 + 2 D W", lambda d, w, b, h: (d + b) * (3 * d + 2 * w)),
    ("counted as 2 D^2 + 4 D W", lambda d, w, b, h: (d + b) * 2 * (d + 2 * w)),
    ("counted as 2 D^2 + 2 D^2 H", lambda d, w, b, h: (d + b) * 2 * (d + w) * h),
    ("expected a number, got the text", lambda d, w, b, h: str((d + b) * 2 * (d + w))),
    ("expected one number, got 2 results", lambda d, w, b, h: (2 * d * (d + w), 2 * b * (d + w))),
):  # fmt: skip
    wrong("param_count", says, lambda d, h, bias, f=count: f(d, d // h, int(bias), h))
right("param_count", lambda d, h, bias: (d + bias) * 2 * (d + d / h))

for says, factors in (
    ("1 of 4 are not right: number 2", (8, 1.79, 1, 1)), ("rounded up", (8, 1.77, 1, 1)), ("number 2", (8, 1.785, 1, 1)),
    ("Cache: it holds keys and values", (8.03, 1.78, 1, 1)), ("FLOPs: each of the 8", (8, 1.78, 1.01, 1)),
    ("Cache: it holds keys and values", (7, 1.78, 1, 1)), ("Parameters: query and output", (8, 1.5, 1, 1)),
    ("FLOPs: each of the 8 query heads still scores", (8, 1.78, 2, 1)), ("Scores: each of the 8", (8, 1.78, 1, 0)),
    ("Four numbers are asked", (8, 1.78, 1)), ("Four numbers are asked", 8), ("in another order", (1.78, 8, 1, 1)),
    ("Scores: each of the 8 query heads still has a table", (8, 1.78, 64, 64)), ("keep their width", (8, 2.25, 1, 1)),
):  # fmt: skip
    wrong("what_shrinks", says, factors, never="a tensor of shape")
right("what_shrinks", [8, 1.778, 1.0, 1])


def tril(n, m, diagonal=0):
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


def attention(fill=-math.inf, scale=lambda q, k: q.size(-1) ** -0.5, rule=tril, softmax=lambda s: s.softmax(-1), causal=bool,
              give=lambda o, w: (o, w), first=lambda *x: x):  # fmt: skip
    """Multi-query attention as people write it."""

    def answer(query, key, value, is_causal):
        query, key, value = first(query, key, value)
        scores = query @ key[:, None].mT * scale(query, key)
        if causal(is_causal):
            scores = scores.masked_fill(~rule(*scores.shape[-2:]), fill)
        weights = softmax(scores)
        return give(weights @ value[:, None], weights)

    return answer


for *says, steps in (
    *(("minus infinity is less than any", {"fill": fill}) for fill in (-1e3, -5e3, -1e4, -4e4, -65504.0, -2e6, -1e7, -1e8)),
    ("query 0 gives key 1 some weight", {"causal": lambda c: not c}),
    ("query 0 gives key 4 some weight", {"rule": lambda n, m: tril(n, m) & (torch.arange(m) > 0) | (torch.arange(m) == m - 1)}),
    ("query 0 gives key 1 some weight", {"rule": lambda n, m: tril(n, m, n)}),
    ("The mask is read the other way round", {"rule": lambda n, m: ~tril(n, m)}),
    ("1.732 times as large", {"scale": lambda q, k: len(q) ** -0.5 if q.size(1) > 1 else q.size(-1) ** -0.5}),
    ("0.7071 times as large", {"scale": lambda q, k: (2 * q.size(-1)) ** -0.5}),
    ("the weights of query 3 sum to", {"softmax": lambda s: s.relu()}),
    ("One largest score is subtracted", {"softmax": lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1, keepdim=True)}),
    ("right to about two digits", {"softmax": lambda s: s.bfloat16().softmax(-1).float()}),
    ("The weights are right, so the fault lies behind them", {"give": lambda o, w: (F.normalize(o, dim=-1), w)}),
    ("The weights are right", "of query 3 sum to 0.5", {"give": lambda o, w: (o / 2, w)}),
    ("The output is right; only the returned weights are not", {"give": lambda o, w: (o, w.log())}),
    ("expected shape (2, 3, 4, 7), got (2, 4, 7)", {"give": lambda o, w: (o.mean(1), w.mean(1))}),
    ("expected 2 results, got 3 results", {"give": lambda o, w: (o, w, w)}),
    ("an input is changed in place: key", {"first": lambda q, k, v: (q, k.mul_(2) / 2, v)}),
    ("no gradient flows back to value", {"give": lambda o, w: (o.detach(), w)}),
):  # fmt: skip
    wrong("multi_query_attention", *says, attention(**steps))
for steps in (
    {"softmax": lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()},
    {"fill": -1e9},
    {"fill": -1e30},
):
    right("multi_query_attention", attention(**steps))


class Shared(torch.nn.Module):
    """The repaired layer, in parts that a mistake replaces."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj, self.out_proj = (torch.nn.Linear(embed_dim, embed_dim) for _ in range(2))
        self.kv_proj = torch.nn.Linear(embed_dim, 2 * self.head_dim)

    def forward(self, x, attn_mask=None):
        query = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key, value = self.kv_proj(x)[:, None].chunk(2, dim=-1)
        scores = query @ key.mT * self.scale()
        weights = self.weigh(scores if attn_mask is None else self.hide(scores, attn_mask))
        return self.give((weights @ value).transpose(1, 2).flatten(2), weights)

    def scale(self):
        return self.head_dim**-0.5

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -math.inf)

    def weigh(self, scores):
        return scores.softmax(-1)

    def give(self, heads, weights):
        return self.out_proj(heads), weights


def built(change):
    """The constructor, and then a change."""

    def init(self, embed_dim, num_heads):
        Shared.__init__(self, embed_dim, num_heads)
        change(self, embed_dim)

    return init


def without_bias(name):
    return built(lambda self, d: setattr(getattr(self, name), "bias", None))


for says, changed in (
    ("unexpected keyword argument 'attn_mask'", {"forward": lambda self, x, mask=None: Shared.forward(self, x, mask)}),
    ("it should read keys 0, 2 to 4", {"hide": lambda self, s, m: s.masked_fill(~m.T, -math.inf)}),
    *(("minus infinity is less than any", {"hide": lambda self, s, m, f=f: s.masked_fill(~m, f)}) for f in (-1e4, -4e4, -1e7, -1e8)),
    ("times as large as they should be", {"scale": lambda self: (2 * self.head_dim) ** -0.5}),
    ("the weights of query 5 sum to", {"weigh": lambda self, s: s.relu()}),
    ("Every number is 1 too large", {"give": lambda self, o, w: (self.out_proj(o) + 1, w)}),
    ("The output is right; only the returned weights", {"give": lambda self, o, w: (self.out_proj(o), w.log())}),
    ("stores no q_proj.bias", {"__init__": without_bias("q_proj")}),
    ("stores no out_proj.bias", {"__init__": without_bias("out_proj")}),
    ("more than it should: norm.weight and norm.bias", {"__init__": built(lambda self, d: setattr(self, "norm", torch.nn.LayerNorm(d)))}),
    ("frozen: kv_proj.weight and kv_proj.bias", {"__init__": built(lambda self, d: self.kv_proj.requires_grad_(False))}),
    ("before Module.__init__() call", {"__init__": lambda self, d, h: setattr(self, "q_proj", torch.nn.Linear(d, d))}),
):  # fmt: skip
    wrong("pseudo_tokens", says, type("Changed", (Shared,), changed))
right("pseudo_tokens", Shared)


def step(query, key, value, softmax=lambda s: s.softmax(-1)):
    """One decoding step without a copy."""
    weights = softmax(query[:, :, 0] @ key[:, 0].mT / math.sqrt(query.size(-1)))
    return (weights @ value[:, 0])[:, :, None], weights[:, :, None]


MADE = "something is too large that is made on the way"
for says, decode in (
    ("The query is changed in place", lambda q, k, v: (step(q, k, v), q.div_(2))[0]),
    ("The query is changed in place", lambda q, k, v: (step(q, k, v), q.zero_())[0]),
    ("changed in place: key.", lambda q, k, v: (step(q, k, v), k.div_(2))[0]),
    ("inputs are changed in place: key and query", lambda q, k, v: (step(q, k, v), k.zero_(), q.zero_())[0]),
    (MADE, lambda q, k, v: step(q, k.mT.contiguous().mT, v)),
    (MADE, lambda q, k, v: step(q, k, v.clone())),
    (MADE, lambda q, k, v: step(q, k, v)[:1] + ((q * k).sum(-1)[:, :, None].div(q.size(-1) ** 0.5).softmax(-1),)),
    ("One largest score is subtracted", lambda q, k, v: step(q, k, v, lambda s: (s - s.amax((1, 2), keepdim=True)).exp() / (
        s - s.amax((1, 2), keepdim=True)).exp().sum(-1, keepdim=True))),
    ("axes of size 1 are added or moved", lambda q, k, v: tuple(x.transpose(1, 2) for x in step(q, k, v))),
    ("The weights are right, so the fault lies behind them", lambda q, k, v: (v.mean(2, keepdim=True) + 0 * step(q, k, v)[0], step(q, k, v)[1])),
    ("only this one does not: 3 samples", lambda q, k, v: step(q, k, v) if len(q) < 3 else None),
):  # fmt: skip
    wrong("decode_without_copy", says, decode, never=("finds them small", "is scaled in place"))
right("decode_without_copy", step)
