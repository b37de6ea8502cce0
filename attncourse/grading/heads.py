"""Features cut into heads, and heads joined again."""

from torch import Tensor


def split(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, heads * head_dim) -> (b, heads, n, head_dim)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(heads: Tensor) -> Tensor:
    """(b, heads, n, head_dim) -> (b, n, heads * head_dim)."""
    return heads.transpose(1, 2).flatten(2)
