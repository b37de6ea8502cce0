"""Positions as waves: a vector to add to a token (sinusoids), or an angle to turn its features by (rotary)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sinusoidal(
    positions: Int[Tensor, " n"], width: int, base: float = 10_000.0
) -> Float[Tensor, "n width"]:
    """A vector for each position, of waves from fast to slow: the hands of many clocks.

        vector(p, 2 i) = sin(p * base^(-2 i / width)),   vector(p, 2 i + 1) = cos(p * base^(-2 i / width))

    Args:
        positions: of the tokens, from 0.
        width: of the vectors, even; two features are one clock, i = 0 .. width/2 - 1.
        base: the slowest clock goes round once in about 2 pi base positions.

    Raises:
        ValueError: width is odd.

    Reduces to: 0, 1, 0, 1, ... at position 0.
    Source: vaswani2017, section 3.5.
    Chapter: 04_positions.
    """
    angles = positions[:, None] * _frequencies(width, base, positions.device)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return waves.flatten(1).to(torch.get_default_dtype())


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
    Chapter: 04_positions.
    """
    angles = positions[:, None] * _frequencies(x.size(-1), base, x.device)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _frequencies(width: int, base: float, device: torch.device) -> Float[Tensor, " half"]:
    """base^(-2 i / width), one for each pair of features.

    Far positions have large angles, and only their remainder counts: so they are made in float64, and
    rounding comes last.
    """
    if width % 2:
        raise ValueError(f"features turn in pairs, so their number must be even; got {width}")
    return base ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
