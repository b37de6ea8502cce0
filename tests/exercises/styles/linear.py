"""Attention without a softmax: right answers in other styles."""

import numpy as np
import torch
import torch.nn.functional as F

from attncourse.grading.feature_inputs import elu_plus_one, with_one
from styles import style


@style("causal_state")
def einsums(query, key, value, state, total):
    q, k = elu_plus_one(query), elu_plus_one(key)
    state = state + torch.einsum("bhd,bhe->bhde", k, value)
    total = total + k
    read = torch.einsum("bhd,bhde->bhe", q, state)
    return read / torch.einsum("bhd,bhd->bh", q, total)[..., None], state, total


@style("causal_state")
def broadcast(query, key, value, state, total):
    q, k = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (query, key))
    state = k.unsqueeze(-1) * value.unsqueeze(-2) + state
    total = torch.add(total, k)
    weights = (q * total).sum(dim=-1, keepdim=True)
    return [(q.unsqueeze(-1) * state).sum(dim=-2) / weights, state, total]


@style("causal_state")
def past_and_token_apart(query, key, value, state, total):
    """What is read of the past, and the weight of the token itself."""
    q, k = elu_plus_one(query), elu_plus_one(key)
    own = (q * k).sum(-1)[..., None]
    past = (q[..., None, :] @ state)[..., 0, :]
    output = (past + own * value) / ((q * total).sum(-1)[..., None] + own)
    return output, state + k[..., :, None] @ value[..., None, :], k + total


@style("causal_state")
def head_by_head_in_double(query, key, value, state, total):
    q, k, v, s, z = (x.double() for x in (query, key, value, state, total))
    q, k = torch.exp(q.clamp(max=0)) + q.relu(), torch.exp(k.clamp(max=0)) + k.relu()
    rows, states = [], []
    for b in range(len(q)):
        for h in range(q.shape[1]):
            new = s[b, h] + torch.outer(k[b, h], v[b, h])
            states.append(new)
            rows.append(q[b, h] @ new / (q[b, h] @ (z[b, h] + k[b, h])))
    outputs, state = (torch.stack(x).unflatten(0, q.shape[:2]) for x in (rows, states))
    return outputs, state, z + k


@style("repair_normalizer")
def a_one_beside_each_value(query, key, value, is_causal):
    q, k = elu_plus_one(query), elu_plus_one(key)
    table = q @ k.transpose(-1, -2)
    if is_causal:
        table = table.tril()
    read = table @ F.pad(value, (0, 1), value=1.0)
    return read[..., :-1] / read[..., -1:]


@style("repair_normalizer")
def running_sums(query, key, value, is_causal):
    q, k = elu_plus_one(query), elu_plus_one(key)
    outer = k[..., None] * value[..., None, :]
    if is_causal:
        states, totals = outer.cumsum(2), k.cumsum(2)
    else:
        states, totals = outer.sum(2, keepdim=True), k.sum(2, keepdim=True)
    return (q[..., None] * states).sum(-2) / (q * totals).sum(-1, keepdim=True)


@style("repair_normalizer")
def token_by_token(query, key, value, is_causal):
    q, k = elu_plus_one(query), elu_plus_one(key)
    rows = []
    for i in range(q.shape[2]):
        last = i + 1 if is_causal else k.shape[2]
        w = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k[:, :, :last])
        w = w / w.sum(-1)[..., None]
        rows.append(torch.einsum("bhj,bhje->bhe", w, value[:, :, :last]))
    return torch.stack(rows, dim=2)


@style("repair_normalizer")
def masked_weights(query, key, value, is_causal):
    scores = torch.einsum("bhid,bhjd->bhij", elu_plus_one(query), elu_plus_one(key)).double()
    if is_causal:
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(later, 0)
    return F.normalize(scores, p=1, dim=-1, eps=1e-40) @ value.double()


@style("chunked")
def a_loop_over_chunks(query, key, value, size):
    rows = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state, outputs = 0, []
    for q, k, v in zip(*(x.split(size, dim=2) for x in rows), strict=True):
        read = (q @ k.mT).tril() @ v
        read = read + q @ state if outputs else read
        outputs.append(read[..., :-1] / read[..., -1:])
        state = state + k.mT @ v
    return torch.cat(outputs, dim=2)


@style("chunked")
def slices_and_two_sums(query, key, value, size):
    b, h, n, d = query.shape
    state, total = torch.zeros(b, h, d, value.shape[-1]), torch.zeros(b, h, d, 1)
    parts = []
    for a in range(0, n, size):
        q, k = (elu_plus_one(x[:, :, a : a + size]) for x in (query, key))
        v = value[:, :, a : a + size]
        w = torch.tril(torch.einsum("bhid,bhjd->bhij", q, k))
        over = w.sum(-1, keepdim=True) + q @ total
        parts.append((w @ v + torch.einsum("bhid,bhde->bhie", q, state)) / over)
        state, total = state + k.transpose(-1, -2) @ v, total + k.sum(2)[..., None]
    return torch.cat(parts, -2)


@style("chunked")
def all_chunks_at_once(query, key, value, size):
    n = query.size(2)
    size = min(size, n)
    pad = (0, 0, 0, -n % size)
    q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
    q, k, v = (F.pad(x, pad).unflatten(2, (-1, size)) for x in (q, k, v))
    new = k.mT @ v
    before = F.pad(new.cumsum(2), (0, 0, 0, 0, 1, -1))  # a difference rounds small features away
    read = q @ before + (q @ k.mT).tril() @ v
    read = read.flatten(2, 3)[:, :, :n]
    return read[..., :-1] / read[..., -1:]


@style("chunked")
def states_first(query, key, value, size):
    q, k, v = (x.double() for x in (elu_plus_one(query), elu_plus_one(key), value))
    queries, keys, values = (torch.split(x, size, 2) for x in (q, k, v))
    states, totals = (
        [torch.zeros_like(k[:, :, :1].mT @ v[:, :, :1])],
        [torch.zeros_like(k[:, :, 0])],
    )
    for k, v in zip(keys, values, strict=True):
        states.append(states[-1] + k.mT @ v)
        totals.append(totals[-1] + k.sum(2))
    found = []
    for at, q in enumerate(queries):
        hidden = torch.ones(q.size(2), q.size(2)).triu(1) == 1
        w = (q @ keys[at].mT).masked_fill(hidden, 0)
        below = w.sum(3) + (q * totals[at][:, :, None]).sum(3)
        found.append((q @ states[at] + w @ values[at]) / below[..., None])
    return torch.cat(found, 2)


@style("chunked")
def written_into_place(query, key, value, size):
    q, k, out = elu_plus_one(query), elu_plus_one(key), torch.empty_like(value)
    state, total = 0.0, 0.0
    for first in range(0, key.size(2), size):
        at = slice(first, first + size)
        w = torch.tril(q[:, :, at] @ k[:, :, at].mT)
        up, down = w @ value[:, :, at], w.sum(-1)
        if first:
            up, down = up + q[:, :, at] @ state, down + (q[:, :, at] * total[:, :, None]).sum(-1)
        out[:, :, at] = up / down[..., None]
        state = state + k[:, :, at].mT @ value[:, :, at]
        total = total + k[:, :, at].sum(2)
    return out


@style("repair_global")
def a_state_that_grows(query, key, value, size):
    rows = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state, outputs = torch.zeros_like(rows[1].mT @ rows[2]), []
    for q, k, v in zip(*(x.split(size, 2) for x in rows), strict=True):
        outputs.append(q @ state + (q @ k.mT).tril() @ v)
        state = state + k.mT @ v
    read = torch.cat(outputs, dim=2)
    return read[..., :-1] / read[..., -1:]


@style("repair_global")
def what_is_left_is_subtracted(query, key, value, size):
    """From the state of everything, chunk by chunk from the end."""
    rows = [x.double() for x in (elu_plus_one(query), elu_plus_one(key), with_one(value))]
    state, outputs = rows[1].mT @ rows[2], []
    for q, k, v in list(zip(*(x.split(size, 2) for x in rows), strict=True))[::-1]:
        state = state - k.mT @ v
        outputs.insert(0, q @ state + (q @ k.mT).tril() @ v)
    read = torch.cat(outputs, 2)
    return read[..., :-1] / read[..., -1:]


@style("repair_global")
def running_state(query, key, value, size):
    q, k = elu_plus_one(query), elu_plus_one(key)
    states = torch.einsum("bhnd,bhne->bhnde", k, value).cumsum(2)
    total = torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2))
    return torch.einsum("bhnd,bhnde->bhne", q, states) / total[..., None]


@style("repair_global")
def prefix_of_each_chunk(query, key, value, size):
    q, k = elu_plus_one(query), elu_plus_one(key)
    rows = []
    for a in range(0, q.shape[2], size):
        b = min(a + size, q.shape[2])
        w = torch.tril(q[:, :, a:b] @ k[:, :, a:b].transpose(2, 3))
        sums = w @ value[:, :, a:b] + q[:, :, a:b] @ (k[:, :, :a].mT @ value[:, :, :a])
        total = w.sum(-1) + (q[:, :, a:b] @ k[:, :, :a].sum(2)[..., None])[..., 0]
        rows.append(sums / total.unsqueeze(-1))
    return torch.concat(rows, dim=2)


@style("continue_state")
def token_by_token_behind_a_state(query, key, value, state):
    q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
    state = 0 if state is None else state
    rows = []
    for i in range(q.size(2)):
        state = state + k[:, :, i, :, None] * v[:, :, i, None]
        read = (q[:, :, i, None] @ state)[:, :, 0]
        rows.append(read[..., :-1] / read[..., -1:])
    return torch.stack(rows, 2), state


@style("continue_state")
def running_states(query, key, value, state):
    q, k = elu_plus_one(query), elu_plus_one(key)
    states = torch.einsum("bhnd,bhne->bhnde", k, F.pad(value, (0, 1), value=1.0)).cumsum(2)
    if state is not None:
        states = states + state[:, :, None]
    read = torch.einsum("bhnd,bhnde->bhne", q, states)
    return [read[..., :-1] / read[..., -1].unsqueeze(-1), states[:, :, -1]]


@style("continue_state")
def two_sums(query, key, value, state):
    q, k = elu_plus_one(query).double(), elu_plus_one(key).double()
    if state is None:
        state = torch.zeros(*key.shape[:2], key.size(-1), value.size(-1) + 1)
    old, total = state.double().split([value.size(-1), 1], dim=-1)
    table = torch.tril(q @ k.transpose(-2, -1))
    output = (table @ value.double() + q @ old) / (table.sum(-1, keepdim=True) + q @ total)
    new = torch.cat([old + k.mT @ value.double(), total + k.sum(2)[..., None]], -1)
    return output, new


@style("continue_state")
def two_halves(query, key, value, state):
    """Reads its piece in two pieces."""
    n, outputs = max(1, query.shape[2] // 2), []
    for q, k, v in zip(*(x.split(n, 2) for x in (query, key, value)), strict=True):
        output, state = token_by_token_behind_a_state(q, k, v, state)
        outputs.append(output)
    return torch.cat(outputs, 2), state


FIVE = [-1.0, -2.0, 60.0, 3.0, 18.3333]
style("positive_features", FIVE, name="list_of_floats")
style("positive_features", torch.tensor([-1.0, -2.0, 60.0, 3.0, 18.333334]), name="tensor")
style("positive_features", np.array([-1, -2, (20 - 20 - 60) / -1, 3, 55 / 3]), name="numpy")
style("positive_features", (-1, -2, 60, 3, 18.33), name="rounded")
