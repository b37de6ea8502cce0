"""Features cut into heads, heads joined again, and pairs of features turned by positions."""

import torch
from torch import Tensor


def split(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, heads * head_dim) -> (b, heads, n, head_dim)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(heads: Tensor) -> Tensor:
    """(b, heads, n, head_dim) -> (b, n, heads * head_dim)."""
    return heads.transpose(1, 2).flatten(2)


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Pairs c and c + d / 2, turned by position times 10,000 ** (-2 c / d)."""
    angles = positions[:, None] * 1e4 ** (-2 * torch.arange(x.size(-1) // 2) / x.size(-1))
    (a, b), c, s = x.chunk(2, -1), angles.cos(), angles.sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)
