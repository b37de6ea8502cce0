"""Answers to the exercises on grouped-query attention that these do not list."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from unseen import right, wrong

HEADS = range(12)
for words, value in (
    ("Asked is the KV head of each query head", [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]),
    ("A list of 12 whole numbers is asked", {h: h // 3 for h in HEADS}),
    ("A list of 12 whole numbers is asked", "000111222333"),
    ("12 numbers, in one list", [h // 3 for h in HEADS][:11]),
    ("12 numbers, in one list", 3),
    ("KV head 2 has 4 of the readers", [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 2]),
    ("4 is none of them", [0, 0, 0, 1, 1, 1, 2, 2, 2, 4, 4, 4]),
    ("No query head reads KV head 3", [h // 3 % 3 for h in HEADS]),
    ("these are not neighbours", [3 - h % 4 for h in HEADS]),
    ("not in the order of the KV heads", [0, 0, 0, 2, 2, 2, 1, 1, 1, 3, 3, 3]),
):
    wrong("who_reads_whom", words, value)
for words, value in (
    ("55 GiB, more than 50, and 11 does not divide 64", 11), ("so does a larger number, and 3 does not", 3),
    ("only 64 query heads", 128), ("is whole", 8.5), ("One whole number", [1, 2, 4, 8]), ("One whole number", "8"),
):  # fmt: skip
    wrong("cache_dial", words, value)

for words, join in (
    ("[0, 0, 0] holds heads[0, 0, 0, 4, 0]", lambda x: merged(x.flip(3))),
    ("holds heads[0, 2, 0, 0, 0]", lambda x: merged(x.flip(1))),
    ("holds heads[0, 0, 3, 0, 0]", lambda x: merged(x.flip(2))),
    ("numbers only change places", lambda x: merged(x).cumsum(1)),
    ("axis of tokens is 60 long instead of 5", lambda x: torch.cat(list(x.flatten(1, 2).unbind(1)), 1)),
    ("an input is changed in place: heads", lambda x: (merged(x).clone(), x.zero_())[0]),
    ("100,000", lambda x: merged(x).half().float()),
    ("axes of size 1 are missing", lambda x: merged(x).squeeze()),
    ("`return` missing", lambda x: print(end="")),
):  # fmt: skip
    wrong("join_groups", words, join)
right("join_groups", lambda heads: merged(heads))


def merged(heads):
    return heads.permute(0, 3, 1, 2, 4).flatten(2)


def pooled(x, num_heads, num_kv_heads):
    return x.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1)).mean(1).flatten(0, 1)


for words, pool in (
    ("no sums of rows of x", lambda x, H, G: x.unflatten(0, (G, H // G, -1)).amin(1).flatten(0, 1)),
    ("1/2 of x[0] + x[5]; it should be 1/3 of x[0] + x[5] + x[10]", lambda x, H, G: x.unflatten(0, (G, H // G, -1))[:, :2].mean(1).flatten(0, 1)),
    ("is x[0] + x[10] + x[20]", lambda x, H, G: x.unflatten(0, (H // G, G, -1)).sum(0).flatten(0, 1)),
    ("is x[0] + x[1] + x[2]", lambda x, H, G: x.unflatten(0, (-1, H // G)).sum(1)),
    ("1/4 of x[0] + x[5] + x[10]", lambda x, H, G: pooled(x, H, G) * (H // G) / (H // G + 1)),
    ("row 0 of the result is x[20]", lambda x, H, G: x[-(len(x) // H * G) :]),
    ("a bias (30)", lambda x, H, G: pooled(x.view(len(x), x.shape[1]), H, G)),
    ("x is a vector; with a matrix the answer would be right", lambda x, H, G: pooled(x, H, G) * (1 if x.dim() > 1 else H // G)),
    ("no gradient flows back to x", lambda x, H, G: nn.Parameter(pooled(x, H, G))),
):  # fmt: skip
    wrong("mean_pool", words, pool)
right("mean_pool", pooled)


def attend(
    q,
    k,
    v,
    /,
    scale=None,
    scores=None,
    normalize=None,
    keys=None,
    values=None,
    mix=None,
    queries=None,
):
    """A right answer, with some of it changed."""
    size = q.size(1) // k.size(1)
    k, v = (
        change(x) if change else x.repeat_interleave(size, 1)
        for x, change in ((k, keys), (v, values))
    )
    q = queries(q) if queries else q
    s = (scores(q, k) if scores else q @ k.mT) * (scale(q, size) if scale else q.size(-1) ** -0.5)
    weights = normalize(s) if normalize else s.softmax(-1)
    return mix(weights, v) if mix else weights @ v, weights


FACTOR, FAR = "times as large as they should be: look at the scale", "large ones do not"
CHANGES = (
    (f"1.778 {FACTOR}", {"scale": lambda q, r: q.size(-1) ** -0.25}),
    (f"1.118 {FACTOR}", {"scale": lambda q, r: 8**-0.5}),  # the width of the example
    (f"1.054 {FACTOR}", {"scale": lambda q, r: 3 ** -1.0}),
    (f"0.6931 {FACTOR}", {"normalize": lambda s: (s * math.log(2)).softmax(-1)}),
    (FAR, {"normalize": lambda s: s.clamp(-50, 50).softmax(-1)}),
    ("they should sum to 1", {"normalize": torch.relu}),
    ("the weights, the next step, are not", {"normalize": lambda s: s.tanh().softmax(-1)}),
    ("those of other scores", {"scores": lambda q, k: -torch.cdist(q, k)}),
    ("query heads 5, 4, 3, 2, 1, 0; head h asks that of", {"queries": lambda q: q.flip(1)}),
    ("mixes the values of several heads", {"values": lambda v: v.mean(1, keepdim=True)}),
    ("All weight goes to the best key", {"normalize": lambda s: F.one_hot(s.argmax(-1), s.size(-1)).float()}),
)  # fmt: skip
for words, change in CHANGES:
    wrong("repair_no_softmax", words, lambda q, k, v, change=change: attend(q, k, v, **change))
    wrong(
        "grouped_query_attention",
        words,
        lambda q, k, v, change=change: attend(q, k, v, **change)[0],
    )


@wrong("repair_no_softmax", "mix the values of KV heads 0, 1, 0, 1, 0, 1")
def only_values_strided(q, k, v):
    at = [h % v.size(1) for h in range(q.size(1))]
    return attend(q, k, v, values=lambda v: v[:, at])


@wrong("repair_no_softmax", "read KV heads 1, 1, 1, 1, 1, 1")
def last_head(q, k, v):
    return attend(q, k[:, -1:], v[:, -1:])


@wrong("repair_no_softmax", "only the returned weights are not", "3.162 times")
def other_weights(q, k, v):
    return attend(q, k, v)[0], attend(q, k, v, scale=lambda q, r: 1.0)[1]


@wrong("repair_no_softmax", "the axis of heads is 2 long instead of 6")
def weights_added(q, k, v):
    weights = attend(q, k, v)[1].unflatten(1, (k.size(1), -1)).sum(2)
    return weights @ v, weights


@wrong(
    "grouped_query_attention",
    "one holds 108,000: zeros makes one of shape (108000,)",
    never="are copied",
)
def something_large(q, k, v):
    size = q.size(1) // k.size(1)
    heads = [
        F.scaled_dot_product_attention(q[:, h], k[:, h // size], v[:, h // size])
        for h in range(q.size(1))
    ]
    return torch.stack(heads, 1) + torch.zeros(3 * k.numel())[0]


@wrong("grouped_query_attention", "the axis of heads is 2 long instead of 6")
def heads_of_the_key(q, k, v):
    return torch.stack(
        [F.scaled_dot_product_attention(q[:, h], k[:, h], v[:, h]) for h in range(k.size(1))], 1
    )


@right("grouped_query_attention")
def group_after_group(q, k, v):
    groups = zip(q.chunk(k.size(1), 1), k.unbind(1), v.unbind(1), strict=True)
    one = F.scaled_dot_product_attention
    return torch.cat([torch.stack([one(h, b, c) for h in a.unbind(1)], 1) for a, b, c in groups], 1)


class Shared(nn.Module):
    def __init__(self, embed_dim, num_heads, num_kv_heads):
        super().__init__()
        self.heads, width = (num_heads, num_kv_heads), num_kv_heads * (embed_dim // num_heads)
        self.q_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim),
            nn.Linear(embed_dim, embed_dim),
        )
        self.k_proj, self.v_proj = nn.Linear(embed_dim, width), nn.Linear(embed_dim, width)

    change, rolled, after = {}, False, staticmethod(lambda out, heads: out)

    def forward(self, x, is_causal=False):
        H, G = self.heads
        given = ((self.q_proj, H), (self.k_proj, G), (self.v_proj, G))
        q, k, v = (p(x).unflatten(-1, (n, -1)).transpose(1, 2) for p, n in given)
        k, v = (y.roll(1, 1) if self.rolled else y for y in (k, v))
        hidden = torch.ones(x.size(1), x.size(1)).triu(1).bool() & is_causal
        change = {"scale": lambda q, r: q.size(-1) ** -0.5, "normalize": lambda s: s, **self.change}
        heads = attend(q, k, v, **change | {
            "normalize": lambda s: change["normalize"](s).masked_fill(hidden, -math.inf).softmax(-1)})[0]  # fmt: skip
        heads = heads.transpose(1, 2).flatten(2)
        return self.after(self.out_proj(heads), heads)


right("share_the_keys", Shared)
for words, change in (
    (f"1.778 {FACTOR}", {"change": {"scale": lambda q, r: q.size(-1) ** -0.25}}),
    ("read KV heads 1, 1, 1, 0, 0, 0; they should read 0, 0, 0, 1, 1, 1",
     {"rolled": True}),
    (FAR, {"change": {"normalize": lambda s: s.clamp(max=50)}}),
):  # fmt: skip
    wrong("share_the_keys", words, type("Layer", (Shared,), change))
wrong(
    "share_the_keys",
    "Where the weight of out_proj is 0",
    type("Layer", (Shared,), {"after": staticmethod(lambda out, heads: out + heads)}),
)
wrong(
    "share_the_keys",
    "Negative numbers became 0",
    type("Layer", (Shared,), {"after": staticmethod(lambda out, heads: out.relu())}),
)


@wrong("share_the_keys", "before Module.__init__() call", never="nothing was found")
class NoSuper(nn.Module):
    def __init__(self, embed_dim, num_heads, num_kv_heads):
        self.q_proj = nn.Linear(embed_dim, embed_dim)


@wrong("share_the_keys", "more than it should: temperature", never="code as found")
class Temperature(Shared):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.temperature = nn.Parameter(torch.ones(1))


def moved(q, o, of_q, of_o):
    q, o = q.unflatten(0, (len(of_q), -1)), o.unflatten(1, (len(of_o), -1))
    return q[of_q].flatten(0, 1), o[:, of_o].flatten(1)


def contiguous(h, g):
    return sorted(range(h), key=lambda head: head % g)


for words, load in (
    ("the rows of the old heads 0, 2, 4, 1, 3, 0", lambda q, o, h, g: moved(q, o, [*contiguous(h, g)[:-1], 0], contiguous(h, g))),
    ("the columns of (changed)", lambda q, o, h, g: moved(q, 2 * o, *[contiguous(h, g)] * 2)),
    ("two tensors", lambda q, o, h, g: (q, o, None)),
    ("`return` missing", lambda q, o, h, g: None),
    ("6 query heads, 3 KV heads, head_dim 2, width 12: w_q has the rows of the old heads 0, 2, 4, 1, 3, 5", lambda q, o, h, g: moved(
        q, o, *[contiguous(h, 2 if h % 2 == 0 and g > 1 else g)] * 2)),
):  # fmt: skip
    wrong("strided_checkpoint", words, load)
right("strided_checkpoint", lambda q, o, h, g: moved(q, o, *[contiguous(h, g)] * 2))
