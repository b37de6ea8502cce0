"""The definitions of attention without a softmax, as literal loops; see `attncourse.spec`."""

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
