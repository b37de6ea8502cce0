"""The definitions of attention without a softmax, as literal loops."""

import torch
from torch import Tensor


def elu_plus_one(x: Tensor) -> Tensor:
    """katharopoulos2020, eq. 7."""
    return torch.where(x > 0, x + 1, torch.exp(x))


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    feature_map=elu_plus_one,
    normalize: bool = True,
) -> tuple[Tensor, Tensor]:
    """Output and weights, pair by pair: katharopoulos2020, eq. 3. Query head h reads KV head h // (h / g)."""
    (b, h, n, _), (_, g, m, _) = query.shape, key.shape
    q, k = feature_map(query), feature_map(key)
    output, weights = [], []
    for sample in range(b):
        for head in range(h):
            shared = head // (h // g)
            for i in range(n):
                visible = range(i + 1 if is_causal else m)
                row = {j: (q[sample, head, i] * k[sample, shared, j]).sum() for j in visible}
                total = (sum(row.values()) or 1.0) if normalize else 1.0
                row = {j: product / total for j, product in row.items()}
                output.append(sum(weight * value[sample, shared, j] for j, weight in row.items()))
                weights += [row.get(j, torch.zeros_like(query[0, 0, 0, 0])) for j in range(m)]
    return (
        torch.stack(output).reshape(b, h, n, value.size(-1)),
        torch.stack(weights).reshape(b, h, n, m),
    )


def random_feature_attention(
    query: Tensor, key: Tensor, value: Tensor, directions: Tensor, *, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Output and weights of attention with random features: a softmax over all pairs of a key and a direction.

    choromanski2021, section 2.3: feature_r(x) is exp(w_r . x' - |x'|^2 / 2), x' = x / d^(1/4), and factors that all
    have cancel. Of logarithms, so that nothing overflows.
    """
    (b, h, n, d), m = query.shape, key.size(2)
    q, k = (
        (x / d**0.25) @ directions.to(x).mT - (x / d**0.25).square().sum(-1, keepdim=True) / 2
        for x in (query, key)
    )
    output, weights = [], []
    for sample in range(b):
        for head in range(h):
            for i in range(n):
                visible = i + 1 if is_causal else m
                pairs = q[sample, head, i] + k[sample, head, :visible]
                row = pairs.flatten().softmax(0).reshape(pairs.shape).sum(-1)
                output.append(sum(row[j] * value[sample, head, j] for j in range(visible)))
                weights.append(torch.cat([row, row.new_zeros(m - visible)]))
    return (
        torch.stack(output).reshape(b, h, n, value.size(-1)),
        torch.stack(weights).reshape(b, h, n, m),
    )


def short_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """Each channel of a token mixed with that of the tokens before it, and a SiLU: yang2025.

    Args:
        x: (b, n, channels).
        weight: (channels, size); the last one is the token's own.
    """
    (b, n, channels), size = x.shape, weight.size(1)
    rows = []
    for sample in range(b):
        for t in range(n):
            y = torch.zeros(channels, dtype=x.dtype)
            for s in range(size):
                if t - s >= 0:
                    y = y + weight[:, size - 1 - s] * x[sample, t - s]
            rows.append(y * torch.sigmoid(y))
    return torch.stack(rows).reshape(b, n, channels)


def state_space(query, key, value, log_decay, beta=None, scale=None) -> tuple[Tensor, Tensor]:
    """Output and last state, token by token: yang2024gla; with ``beta``, the delta rule of yang2025.

    Args:
        query, key, value: (b, h, n, d), (b, h, n, d), (b, h, n, e).
        log_decay: (b, h, n), or (b, h, n, d).
        beta: (b, h, n); None adds every value as it is.
        scale: None means 1 / sqrt(d).
    """
    b, h, n, d = query.shape
    scale = d**-0.5 if scale is None else scale
    outputs, states = [], []
    for sample in range(b):
        for head in range(h):
            state = torch.zeros(d, value.size(-1), dtype=query.dtype)
            for t in range(n):
                k, v = key[sample, head, t], value[sample, head, t]
                keep = torch.exp(log_decay[sample, head, t]).expand(d)
                state = torch.stack([keep[row] * state[row] for row in range(d)])
                if beta is not None:
                    said = sum(k[row] * state[row] for row in range(d))
                    v = beta[sample, head, t] * (v - said)
                state = torch.stack([state[row] + k[row] * v for row in range(d)])
                q = scale * query[sample, head, t]
                outputs.append(sum(q[row] * state[row] for row in range(d)))
            states.append(state)
    return (
        torch.stack(outputs).reshape(b, h, n, -1),
        torch.stack(states).reshape(b, h, d, -1),
    )
