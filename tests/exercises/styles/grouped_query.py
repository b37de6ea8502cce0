"""Right answers to the exercises on grouped-query attention."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.exercises.grouped_query import share_the_keys
from attncourse.grading.heads import merge, split
from styles import style

style("who_reads_whom", tuple(h // 3 for h in range(12)), name="by_division")
style("who_reads_whom", torch.arange(4).repeat_interleave(3), name="as_a_tensor")
style("who_reads_whom", [float(h // 3) for h in range(12)], name="as_floats")

style("cache_dial", 8.0, name="as_a_float")
style("cache_dial", torch.tensor(8), name="as_a_tensor")
style("cache_dial", 64 // 8, name="from_the_ratio")


@style("grouped_query_attention")
def folded_and_of_torch(query, key, value):
    b, h, n, d = query.shape
    rows = query.reshape(b, key.size(1), -1, d)
    return F.scaled_dot_product_attention(rows, key, value).reshape(b, h, n, value.size(-1))


@style("grouped_query_attention")
def einsum(query, key, value):
    q = query.unflatten(1, (key.size(1), -1)) * key.shape[-1] ** -0.5
    weights = torch.einsum("bgrnd,bgmd->bgrnm", q, key).softmax(-1)
    return torch.einsum("bgrnm,bgme->bgrne", weights, value).flatten(1, 2)


@style("grouped_query_attention")
def one_head_after_the_other(query, key, value):
    r, heads = query.size(1) // key.size(1), []
    for h in range(query.size(1)):
        k, v = key[:, h // r], value[:, h // r]
        heads.append(torch.softmax(query[:, h] @ k.mT / k.size(-1) ** 0.5, dim=-1) @ v)
    return torch.stack(heads, dim=1)


@style("grouped_query_attention")
def group_after_group_in_double(query, key, value):
    outputs, r = [], query.shape[1] // key.shape[1]
    groups = query.double().split(r, 1), key.double().unbind(1), value.double().unbind(1)
    for q, k, v in zip(*groups, strict=True):
        scores = torch.einsum("brnd,bmd->brnm", q, k) / q.shape[-1] ** 0.5
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        outputs.append(torch.einsum("brnm,bme->brne", weights, v))
    return torch.cat(outputs, dim=1)


@style("repair_no_softmax")
def found_code_repaired(query, key, value):
    grouped = query.unflatten(1, (key.size(1), -1))
    weights = (grouped @ key[:, :, None].mT / query.size(-1) ** 0.5).softmax(-1)
    return (weights @ value[:, :, None]).flatten(1, 2), weights.flatten(1, 2)


@style("repair_no_softmax")
def einsum_in_double(query, key, value):
    q = query.double().unflatten(1, (key.size(1), -1))
    scores = torch.einsum("bgrnd,bgmd->bgrnm", q, key.double()) * key.shape[-1] ** -0.5
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    output = torch.einsum("bgrnm,bgme->bgrne", weights, value.double())
    return output.flatten(1, 2), weights.flatten(1, 2)


@style("repair_no_softmax")
def heads_folded_into_queries(query, key, value):
    b, h, n, d = query.shape
    scores = (query * d**-0.5).reshape(b, key.size(1), -1, d) @ key.mT
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return (weights @ value).reshape(b, h, n, -1), weights.reshape(b, h, n, -1)


@style("repair_no_softmax")
def picked_by_an_index(query, key, value):
    g = torch.arange(query.size(1)) // (query.size(1) // key.size(1))
    weights = torch.softmax(query @ key[:, g].mT / query.size(-1) ** 0.5, dim=-1)
    return [weights @ value[:, g], weights]


@style("join_groups")
def flatten_the_groups_first(heads):
    return heads.flatten(1, 2).transpose(1, 2).flatten(2)


@style("join_groups")
def contiguous_and_view(heads):
    b, g, r, n, d = heads.shape
    return heads.transpose(2, 3).transpose(1, 2).contiguous().view(b, n, g * r * d)


@style("join_groups")
def concatenate(heads):
    return torch.cat([head for group in heads.unbind(1) for head in group.unbind(1)], dim=-1)


@style("join_groups")
def loops_over_heads(heads):
    b, g, r, n, d = heads.shape
    out = heads.new_zeros(b, n, g * r * d)
    for k in range(g):
        for j in range(r):
            start = (k * r + j) * d
            out[:, :, start : start + d] = heads[:, k, j]
    return out


@style("mean_pool")
def chunks(x, num_heads, num_kv_heads):
    heads, size = x.chunk(num_heads), num_heads // num_kv_heads
    return torch.cat([sum(heads[k : k + size]) / size for k in range(0, num_heads, size)])


@style("mean_pool")
def reshape_in_double(x, num_heads, num_kv_heads):
    x, size = x.double(), num_heads // num_kv_heads
    shape = (num_kv_heads, size, x.shape[0] // num_heads, -1)
    return x.reshape(shape).sum(dim=1).div(size).reshape(-1, *x.shape[1:])


@style("mean_pool")
def a_matrix_that_averages(x, num_heads, num_kv_heads):
    size = num_heads // num_kv_heads
    average = torch.eye(num_kv_heads).repeat_interleave(size, dim=1) / size
    return torch.kron(average, torch.eye(x.size(0) // num_heads)) @ x


@style("mean_pool")
def strided_slices(x, num_heads, num_kv_heads):
    heads, size = x.unflatten(0, (num_heads, -1)), num_heads // num_kv_heads
    return torch.stack([heads[k::size] for k in range(size)]).mean(0).flatten(0, 1)


@style("share_the_keys")
class FusedAndGrouped(share_the_keys.Right):
    def forward(self, x, is_causal=False):
        q, k, v = self.projected(x)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        return self.out_proj(merge(heads))


@style("share_the_keys")
class GroupAxisInDouble(share_the_keys.Right):
    def forward(self, x, is_causal=False):
        q, k, v = (t.double() for t in self.projected(x))
        q = q.unflatten(1, (self.num_kv_heads, -1))
        s = torch.einsum("bgrnd,bgmd->bgrnm", q, k) / q.size(-1) ** 0.5
        if is_causal:
            s = torch.where(torch.ones(s.shape[-2:]).tril() > 0, s, -1e9)
        heads = torch.einsum("bgrnm,bgme->bngre", s.softmax(-1), v)
        return self.out_proj(heads.flatten(2).float())


@style("share_the_keys")
class HeadByHead(share_the_keys.Right):
    def forward(self, x, is_causal=False):
        projections = self.q_proj, self.k_proj, self.v_proj
        q, k, v = (p(x).split(self.head_dim, dim=-1) for p in projections)
        r, one = len(q) // len(k), partial(F.scaled_dot_product_attention, is_causal=is_causal)
        heads = [one(q[h], k[h // r], v[h // r]) for h in range(len(q))]
        return self.out_proj(torch.cat(heads, -1))


@style("share_the_keys")
class RowsOfTheMatricesRepeated(share_the_keys.Right):
    """The matrices are widened when they are used; what is stored stays narrow."""

    def forward(self, x, is_causal=False):
        def wide(p):
            parts = (t.unflatten(0, (1, -1, self.head_dim)) for t in (p.weight, p.bias))
            each = self.num_heads // len(p.bias.unflatten(0, (-1, self.head_dim)))
            w, b = (t.repeat_interleave(each, 1).flatten(0, 2) for t in parts)
            return split(F.linear(x, w, b), self.num_heads)

        q, k, v = (wide(p) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT / self.head_dim**0.5
        if is_causal:
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return self.out_proj(merge(scores.softmax(-1) @ v))


@style("strided_checkpoint")
def sorted_by_key_head(w_q, w_o, num_heads, num_kv_heads):
    order = torch.argsort(torch.arange(num_heads) % num_kv_heads, stable=True)
    d = w_q.size(0) // num_heads
    rows = (order[:, None] * d + torch.arange(d)).flatten()
    return w_q[rows], w_o[:, rows]


@style("strided_checkpoint")
def heads_of_a_group_in_another_order(w_q, w_o, num_heads, num_kv_heads):
    order = [h for g in range(num_kv_heads) for h in reversed(range(g, num_heads, num_kv_heads))]
    q, o = w_q.unflatten(0, (num_heads, -1)), w_o.unflatten(1, (num_heads, -1))
    return [q[order].flatten(0, 1).double(), o[:, order].flatten(1).double()]


@style("strided_checkpoint")
def loops(w_q, w_o, num_heads, num_kv_heads):
    d, r = len(w_q) // num_heads, num_heads // num_kv_heads
    new_q, new_o = torch.zeros_like(w_q), torch.zeros_like(w_o)
    for h in range(num_heads):
        to = h % num_kv_heads * r + h // num_kv_heads
        new_q[to * d : to * d + d] = w_q[h * d : h * d + d]
        new_o[:, to * d : to * d + d] = w_o[:, h * d : h * d + d]
    return new_q, new_o
