"""Gates and the delta rule: right answers in other styles."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from styles import style


def later(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


@style("decay_mask")
def row_by_row(log_decay):
    """The row before, faded, with a 1 for the new token: as the state does it."""
    b, h, n = log_decay.shape
    row, rows = log_decay.new_zeros(b, h, n), []
    for t in range(n):
        row = row * log_decay[:, :, t : t + 1].exp() + F.one_hot(torch.tensor(t), n)
        rows.append(row)
    return torch.stack(rows, dim=2)


@style("decay_mask")
def sums_of_segments(log_decay):
    """Each column sums only what comes behind its token: no difference of large numbers."""
    n = log_decay.shape[-1]
    below = torch.ones(n, n, dtype=torch.bool).tril(-1)
    logs = log_decay.unsqueeze(-1).expand(*log_decay.shape, n).masked_fill(~below, 0)
    return logs.cumsum(-2).masked_fill(later(n), float("-inf")).exp()


@style("decay_mask")
def one_number_at_a_time(log_decay):
    b, h, n = log_decay.shape
    out = torch.zeros(b, h, n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i + 1):
            out[:, :, i, j] = torch.exp(log_decay[:, :, j + 1 : i + 1].sum(-1))
    return out


@style("decay_mask")
def a_bias_of_large_negative_numbers(log_decay):
    total = torch.einsum("bht,it->bhi", log_decay, torch.ones(*[log_decay.size(-1)] * 2).tril())
    bias = total.unsqueeze(-1) - total.unsqueeze(-2)
    return torch.exp(torch.where(later(log_decay.size(-1)), torch.tensor(-1e9), bias))


@style("decay_mask")
def products_of_decays(log_decay):
    n = log_decay.size(-1)
    keep = log_decay.exp()[..., None].expand(*log_decay.shape, n)
    below = torch.ones(n, n).tril(-1).bool()
    return torch.tril(torch.where(below, keep, 1.0).cumprod(-2))


@style("delta_step")
def einsum_and_lists(state, query, key, value, beta, log_decay):
    faded = torch.einsum("bhde,bh->bhde", state, log_decay.exp())
    error = value - torch.einsum("bhd,bhde->bhe", key, faded)
    new = faded + torch.einsum("bh,bhd,bhe->bhde", beta, key, error)
    return [torch.einsum("bhd,bhde->bhe", query, new) / math.sqrt(query.shape[-1]), new]


@style("delta_step")
def a_matrix_that_erases(state, query, key, value, beta, log_decay):
    """(I - beta k k^T) times the faded state, and then beta k v^T."""
    d = key.size(-1)
    erase = torch.eye(d) - beta[..., None, None] * key[..., :, None] @ key[..., None, :]
    new = log_decay.exp()[..., None, None] * (erase @ state)
    new = new + (beta[..., None] * key)[..., :, None] @ value[..., None, :]
    return (query.unsqueeze(-2) @ new).squeeze(-2) * d**-0.5, new


@style("delta_step")
def transposed_state_in_float64(state, query, key, value, beta, log_decay):
    """Values as rows, as some papers write it."""
    s = (state.double() * torch.exp(log_decay.double()).reshape(*beta.shape, 1, 1)).mT
    k, v = key.double().unsqueeze(-1), value.double().unsqueeze(-1)
    s = s - beta[..., None, None] * (s @ k - v) @ k.mT
    return (s @ query.double().unsqueeze(-1)).squeeze(-1) / query.size(-1) ** 0.5, s.mT


@style("delta_step")
def head_by_head(state, query, key, value, beta, log_decay):
    outputs, states = [], []
    for s, q, k, v, w, g in zip(*(x.flatten(0, 1) for x in (state, query, key, value, beta, log_decay)), strict=True):  # fmt: skip
        s = s * math.e**g
        s = torch.addr(s, k, w * (v - s.t() @ k))
        states.append(s)
        outputs.append(torch.mv(s.t(), q) / len(q) ** 0.5)
    return torch.stack(outputs).view_as(value), torch.stack(states).view_as(state)


@style("delta_step")
def output_without_the_new_state(state, query, key, value, beta, log_decay):
    """The query reads the faded state, and of what is written its product with the key."""
    faded = torch.mul(state, log_decay.exp()[:, :, None, None])
    added = (value - (key[..., None] * faded).sum(-2)) * beta[..., None]
    output = (query[..., None] * faded).sum(-2) + (query * key).sum(-1, keepdim=True) * added
    return output / torch.tensor(query.size(-1)).sqrt(), faded + key[..., None] * added[
        ..., None, :
    ]


style("overwrite", [10.0, 2.0, 3.0, 11.0, 5.0, 21.8], name="list_of_floats")
style("overwrite", torch.tensor([10, 2, 3, 11, 5, 21.8]), name="tensor")
style(
    "overwrite",
    [torch.tensor(x) for x in (10.0, 2.0, 3.0, 11.0, 5.0, 21.8)],
    name="tensors_in_a_list",
)
style(
    "overwrite",
    np.array([8 + 2, 2, 4 + 0.5 * (2 - 4), 11, 2 + 0.6 * (11 - 6), 11 + 0.6 * 10 + 0.8 * 6]),
    name="numpy",
)


@style("repair_decay")
def token_by_token(query, key, value, log_decay, state):
    outputs = []
    for q, k, v, g in zip(*(x.unbind(2) for x in (query, key, value, log_decay)), strict=True):
        state = g.exp()[..., None, None] * state + k.unsqueeze(-1) @ v.unsqueeze(-2)
        outputs.append((q.unsqueeze(-2) @ state).squeeze(-2) / math.sqrt(q.size(-1)))
    return torch.stack(outputs, 2), state


@style("repair_decay")
def found_code_repaired(query, key, value, log_decay, state):
    n, total = query.size(2), log_decay.cumsum(dim=-1)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(later, -math.inf).exp()
    query = query / math.sqrt(query.size(-1))
    output = (query * total[..., None].exp()) @ state + (query @ key.mT * decay) @ value
    left = decay[..., -1, :]  # the last row of the table: what is left of each token
    return output, total[..., -1, None, None].exp() * state + (key * left[..., None]).mT @ value


@style("repair_decay")
def sums_from_the_end(query, key, value, log_decay, state):
    """What comes behind each token is summed by itself."""
    rest = log_decay.flip(-1).cumsum(-1).flip(-1) - log_decay
    before = torch.cumsum(log_decay, 2)
    gaps = torch.where(torch.ones(2 * (query.shape[2],)).tril() > 0, rest[:, :, None] - rest[..., None], -1e9)  # fmt: skip
    weights = torch.einsum("bhid,bhjd->bhij", query, key) * gaps.exp() * query.shape[-1] ** -0.5
    output = weights @ value + before.exp()[..., None] * (query @ state) * query.shape[-1] ** -0.5
    keep = log_decay.sum(-1)[..., None, None].exp()
    return [output, keep * state + torch.einsum("bhjd,bhje,bhj->bhde", key, value, rest.exp())]


@style("repair_decay")
def the_state_as_a_token_in_front(query, key, value, log_decay, state):
    """Rows of the state are tokens: their keys are the axes, and they do not fade before the first real one."""
    (b, h, n, d), q = query.shape, query.double() / query.size(-1) ** 0.5
    keys = torch.cat([torch.eye(d).expand(b, h, d, d), key], 2).double()
    values = torch.cat([state, value], 2).double()
    total = torch.cat([log_decay.new_zeros(b, h, d), log_decay], 2).double().cumsum(-1)
    bias = total[:, :, d:, None] - total[:, :, None]
    bias = bias.masked_fill(torch.ones(n, n + d).triu(d + 1).bool(), -torch.inf)
    left = (total[..., -1:] - total).exp()
    return (q @ keys.mT * bias.exp()) @ values, (keys * left[..., None]).mT @ values
