"""Right answers to the exercises on multi-query attention."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.multi_query import pseudo_tokens
from attncourse.grading.heads import merge, split
from styles import style

for _name, _count in (
    ("the_formula", lambda d, h, b: 2 * d**2 * (1 + 1 / h) + (2 * d * (1 + 1 / h) if b else 0)),
    ("one_group", lambda d, h, b: (2 * d + 2 * d // h) * (d + 1 if b else d)),
    ("minus_what_is_shared", lambda d, h, b: (4 * d - 2 * (d - d // h)) * (d + int(b))),
):
    style("param_count", _count, name=_name)


@style("param_count")
def one_packed_matrix(embed_dim, num_heads, bias):
    packed = nn.Linear(embed_dim, embed_dim + 2 * (embed_dim // num_heads), bias, device="meta")
    out = nn.Linear(embed_dim, embed_dim, bias, device="meta")
    return sum(p.numel() for layer in (packed, out) for p in layer.parameters())


style("what_shrinks", (8, 16 / 9, 1, 1), name="a_tuple")
style("what_shrinks", [8.0, 1.78, 1.0, 1.0], name="a_rounded_list")
style("what_shrinks", torch.tensor([8, 4 / (2 * (1 + 1 / 8)), 1, 1]), name="a_tensor")


@style("multi_query_attention")
def einsum(query, key, value, is_causal):
    scores = torch.einsum("bhnd,bmd->bhnm", query, key) / query.shape[-1] ** 0.5
    if is_causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bhnm,bme->bhne", weights, value), weights


@style("multi_query_attention")
def heads_folded_into_queries(query, key, value, is_causal):
    h, n, m = *query.shape[1:3], key.size(1)
    scores = query.flatten(1, 2) @ key.mT / query.size(-1) ** 0.5
    if is_causal:
        past = torch.ones(n, m, dtype=torch.bool).tril().repeat(h, 1)
        scores = scores.masked_fill(~past, -torch.inf)
    weights = scores.softmax(-1)
    return (weights @ value).unflatten(1, (h, n)), weights.unflatten(1, (h, n))


@style("multi_query_attention")
def head_by_head_in_double(query, key, value, is_causal):
    tables = []
    for q in query.double().unbind(1):
        scores = q @ key.double().mT / q.size(-1) ** 0.5
        i, j = torch.arange(scores.size(1))[:, None], torch.arange(scores.size(2))
        scores = torch.where((j <= i) | (not is_causal), scores, -1e30)
        tables.append((scores - scores.logsumexp(-1, keepdim=True)).exp())
    return torch.stack([w @ value.double() for w in tables], 1), torch.stack(tables, 1)


@style("pseudo_tokens")
class NarrowProjectionOldReshape(pseudo_tokens.Right):
    def forward(self, x, attn_mask=None):
        k, v = (t.reshape(len(x), 1, -1, self.head_dim) for t in self.kv_proj(x).chunk(2, dim=-1))
        k, v = (t.expand(-1, self.num_heads, -1, -1) for t in (k, v))
        scores = split(self.q_proj(x), self.num_heads) @ k.transpose(2, 3) / self.head_dim**0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


@style("pseudo_tokens")
class HeadsFoldedIntoQueries(pseudo_tokens.Right):
    def forward(self, x, attn_mask=None):
        k, v = self.kv_proj(x).chunk(2, dim=-1)
        rows = split(self.q_proj(x), self.num_heads).flatten(1, 2) * self.head_dim**-0.5
        hidden = ~torch.ones(x.size(1), x.size(1)).bool() if attn_mask is None else ~attn_mask
        weights = (rows @ k.mT).masked_fill(hidden.repeat(self.num_heads, 1), -1e9).softmax(-1)
        shape = self.num_heads, x.size(1)
        return self.out_proj(merge((weights @ v).unflatten(1, shape))), weights.unflatten(1, shape)


@style("pseudo_tokens")
class FusedOutput(pseudo_tokens.Right):
    def forward(self, x, attn_mask=None):
        q, (k, v) = split(self.q_proj(x), self.num_heads), self.halves(x)
        eye = torch.eye(x.size(1)).expand(len(x), 1, -1, -1)
        mixed, weights = (
            F.scaled_dot_product_attention(q, k, values, attn_mask, enable_gqa=True)
            for values in (v, eye)
        )
        return self.out_proj(merge(mixed)), weights


@style("pseudo_tokens")
class HeadByHead(pseudo_tokens.Right):
    def forward(self, x, attn_mask=None):
        k, v = F.linear(x, self.kv_proj.weight, self.kv_proj.bias).split(self.head_dim, dim=-1)
        tables = []
        for q in self.q_proj(x).chunk(self.num_heads, dim=-1):
            scores = q @ k.mT / math.sqrt(q.size(-1))
            scores = scores if attn_mask is None else scores + torch.log(attn_mask.float())
            tables.append(scores.softmax(-1))
        return self.out_proj(torch.cat([w @ v for w in tables], dim=-1)), torch.stack(tables, dim=1)


@style("decode_without_copy")
def one_head_after_the_other(query, key, value):
    outputs, maps = [], []
    for q in query.split(1, dim=1):
        maps.append((q @ key.mT / q.size(-1) ** 0.5).softmax(-1))
        outputs.append(maps[-1] @ value)
    return torch.cat(outputs, dim=1), torch.cat(maps, dim=1)


@style("decode_without_copy")
def einsum_of_squeezed(query, key, value):
    scores = torch.einsum("bhd,bmd->bhm", query[:, :, 0], key[:, 0]) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return torch.einsum("bhm,bme->bhe", weights, value[:, 0]).unsqueeze(2), weights.unsqueeze(2)


@style("decode_without_copy")
def sample_by_sample(query, key, value):
    out = torch.empty(*query.shape[:3], value.size(-1))
    weights = torch.empty(*query.shape[:3], key.size(2))
    for o, w, q, k, v in zip(out, weights, query, key, value, strict=True):
        scores = k[0] @ q[:, 0].T / q.size(-1) ** 0.5  # (tokens, heads)
        w[:, 0] = torch.softmax(scores, dim=0).T
        o[:, 0] = w[:, 0] @ v[0]
    return [out, weights]


@style("decode_without_copy")
def batched_product(query, key, value):
    scores = torch.bmm(query.flatten(1, 2) / query.size(-1) ** 0.5, key.flatten(1, 2).mT).double()
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True)).float()
    return torch.bmm(weights, value.flatten(1, 2)).unsqueeze(2), weights[:, :, None]
