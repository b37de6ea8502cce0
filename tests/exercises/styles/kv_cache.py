"""The KV cache: right answers in other styles."""

import math

import torch
import torch.nn.functional as F

from attncourse.grading.exercises.kv_cache.append import RepairedCache
from attncourse.grading.exercises.kv_cache.chunked_decode import join
from styles import style

style("intensity", 8.0, name="float")
style("intensity", torch.tensor(8.0), name="tensor")
style("intensity", (64 * 4 * 4096 * 128) / (8 * 2 * 4096 * 128 * 2), name="counted")


@style("kv_bytes")
def tensors(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    each = [torch.empty(batch, num_kv_heads, length, x, dtype=dtype) for x in (head_dim, value_dim)]
    return torch.tensor(layers * sum(x.nbytes for x in each))


@style("kv_bytes")
def layer_by_layer(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    size = torch.tensor([], dtype=dtype).element_size()
    return batch * length * sum((head_dim + value_dim) * size for _ in range(layers * num_kv_heads))


@style("kv_bytes")
def table_of_sizes(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    name = str(dtype).removeprefix("torch.").partition("_")[0]
    bits = 8 if name == "bool" else int("".join(filter(str.isdigit, name)))
    return math.prod([batch, layers, num_kv_heads, length, head_dim + value_dim]) * bits // 8


@style("bottom_right_mask")
def shifted_triangle(n, past):
    return torch.ones(n, past + n, dtype=torch.bool).tril(diagonal=past)


@style("bottom_right_mask")
def two_blocks(n, past):
    return torch.cat([torch.ones(n, past).bool(), torch.ones(n, n).tril().bool()], dim=1)


@style("bottom_right_mask")
def last_rows_of_the_whole(n, past):
    return torch.ones(past + n, past + n, dtype=torch.bool).tril()[past:]


@style("bottom_right_mask")
def row_by_row(n, past):
    mask = torch.zeros(n, past + n, dtype=torch.bool)
    for i in range(n):
        mask[i, : past + i + 1] = True
    return mask


@style("bottom_right_mask")
def not_the_future(n, past):
    return torch.triu(torch.ones(n, past + n), past + 1) == 0


@style("chunked_decode")
def of_torch(query, key, value, past_key, past_value):
    keys, values = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    past, n = past_key.size(2), query.size(2)
    visible = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    return F.scaled_dot_product_attention(query, keys, values, visible), keys, values


@style("chunked_decode")
def whole_pass_in_double(query, key, value, past_key, past_value):
    keys, values = join(past_key, key), join(past_value, value)
    every = join(0 * past_key, query).double()
    output = F.scaled_dot_product_attention(every, keys.double(), values.double(), is_causal=True)
    return [output[:, :, past_key.size(2) :], keys, values]


@style("chunked_decode")
def token_by_token(query, key, value, keys, values):
    rows = []
    for q, k, v in zip(query.split(1, 2), key.split(1, 2), value.split(1, 2), strict=True):
        keys, values = join(keys, k), join(values, v)
        rows.append(torch.softmax(q @ keys.mT / q.size(-1) ** 0.5, dim=-1) @ values)
    return torch.cat(rows, dim=2), keys, values


@style("chunked_decode")
def past_and_new_scores(query, key, value, past_key, past_value):
    n, p = query.size(2), past_key.size(2)
    old = torch.einsum("bhnd,bhpd->bhnp", query, past_key)
    new = torch.einsum("bhnd,bhmd->bhnm", query, key) + torch.full((n, n), -1e9).triu(1)
    old, new = torch.softmax(join(old.mT, new.mT).mT / query.size(-1) ** 0.5, -1).split([p, n], -1)
    output = old @ past_value + torch.einsum("bhnm,bhme->bhne", new, value)
    return output, join(past_key, key), join(past_value, value)


@style("rotate_cached_keys")
def last_of_all_positions(query, key, value, past_key, past_value):
    def rotary(x, positions):
        frequency = 1.0 / 10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
        angle = torch.outer(positions.float(), frequency).repeat(1, 2)
        half = torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)
        return x * angle.cos() + half * angle.sin()

    n, m = query.size(2), query.size(2) + past_key.size(2)
    at = torch.arange(m)[-n:]
    keys, values = join(past_key, rotary(key, at)), join(past_value, value)
    mask = torch.arange(m) <= at[:, None]
    return F.scaled_dot_product_attention(rotary(query, at), keys, values, mask), keys, values


def turned_by(x, position):
    a, b = x.chunk(2, dim=-1)
    angles = position * 1e4 ** (-torch.arange(a.size(-1)) / a.size(-1))
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


@style("rotate_cached_keys")
def token_at_a_time(query, key, value, keys, values):
    rows = []
    for q, k, v in zip(*(x.split(1, 2) for x in (query, key, value)), strict=True):
        at = keys.size(2)
        keys, values = join(keys, turned_by(k, at)), join(values, v)
        scores = turned_by(q, at) @ keys.mT / q.size(-1) ** 0.5
        rows.append(scores.softmax(-1) @ values)
    return [torch.cat(rows, dim=2), keys, values]


@style("rotate_cached_keys")
def complex_numbers(query, key, value, past_key, past_value):
    past = past_key.size(2)

    def turned(x):
        speeds = 1e4 ** (-torch.arange(0, x.size(-1), 2).double() / x.size(-1))
        angles = torch.arange(past, past + x.size(2))[:, None] * speeds
        pairs = torch.complex(*x.double().chunk(2, dim=-1)) * torch.exp(1j * angles)
        return torch.cat([pairs.real, pairs.imag], dim=-1).float()

    keys, values = join(past_key, turned(key)), join(past_value, value)
    visible = torch.ones(query.size(2), keys.size(2)).tril(past).bool()
    scores = (turned(query) @ keys.mT / query.size(-1) ** 0.5).masked_fill(~visible, -math.inf)
    return scores.softmax(-1) @ values, keys, values


@style("append")
class LengthIsATensor:
    def __init__(self, batch, heads, max_length, head_dim):
        self.memory = torch.zeros(batch, heads, max_length, head_dim)
        self.length = torch.tensor(0)

    def append(self, new):
        end = self.length + new.size(2)
        if end > self.memory.size(2):
            raise ValueError(f"{new.size(2)} tokens are too many")
        self.memory[:, :, self.length : end] = new
        self.length = end
        return self.memory[:, :, :end]


@style("append")
class SequenceFirst:
    def __init__(self, batch, heads, max_length, head_dim):
        self.rows = torch.empty(max_length, batch, heads, head_dim, dtype=torch.float64)
        self.length = 0

    def append(self, new):
        if self.length + new.size(2) > len(self.rows):
            raise ValueError("the cache is full")
        for row in new.unbind(2):
            self.rows[self.length] = row
            self.length += 1
        return self.rows[: self.length].permute(1, 2, 0, 3)


@style("append")
class IndexCopy(RepairedCache):
    def append(self, new):
        at = torch.arange(new.size(2)) + self.length
        if int(at[-1]) >= self.memory.size(2):
            raise type("CacheFull", (ValueError,), {})
        self.memory.index_copy_(2, at, new)
        self.length = int(at[-1]) + 1
        return self.memory[..., : self.length, :]
