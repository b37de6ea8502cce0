"""Positions by rotation (RoPE): each pair of features turns by an angle that grows with the position."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def rotary(
    x: Float[Tensor, "*b n d"], positions: Int[Tensor, " n"], base: float = 10_000.0
) -> Float[Tensor, "*b n d"]:
    """Turn the features of each token by angles proportional to its position.

        (x_i, x_{i + d/2}) -> (x_i cos a - x_{i + d/2} sin a,  x_i sin a + x_{i + d/2} cos a)
        a = position * base^(-2 i / d),   i = 0 .. d/2 - 1

    Turned queries and keys have dot products that depend on the distance of their positions only. A key is
    therefore turned once, by its own position, before it goes into a cache.

    Args:
        x: queries or keys, d even; feature i is paired with i + d/2, as in Llama. (The paper pairs
            2i with 2i + 1: the same up to an order of the features.)
        positions: of each token in the whole sequence; behind a cache they start at ``cache.length``.
        base: the slowest pair turns once in about 2 pi base positions.

    Raises:
        ValueError: d is odd.

    Reduces to: x when all positions are 0.
    Source: su2024, section 3.2.2.
    Chapter: 06_kv_cache.
    """
    d = x.size(-1)
    if d % 2:
        raise ValueError(f"features turn in pairs, so their number must be even; got {d}")
    # Far positions have large angles, and only their remainder counts: rounding comes last.
    frequencies = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d)
    angles = positions[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
