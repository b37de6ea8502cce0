"""Positions as waves: a vector to add to a token (sinusoids), or an angle to turn its features by (rotary)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

# A turn has 2**64 steps, so that in int64 whole turns drop out by themselves. A radian has this many.
RADIAN = 2**64 / (2 * math.pi)


def sinusoidal(
    positions: Int[Tensor, " n"], width: int, base: float = 10_000.0
) -> Float[Tensor, "n width"]:
    """A vector for each position, of waves from fast to slow: the hands of many clocks.

        vector(p, 2 i) = sin(p * base^(-2 i / width)),   vector(p, 2 i + 1) = cos(p * base^(-2 i / width))

    Args:
        positions: of the tokens, from 0.
        width: of the vectors, even; two features are one clock, i = 0 .. width/2 - 1.
        base: the slowest clock goes round once in about 2 pi base positions; 1 <= base.

    Raises:
        TypeError: positions are not integers.
        ValueError: width is odd, or base is below 1.

    Reduces to: 0, 1, 0, 1, ... at position 0.
    Source: vaswani2017, section 3.5.
    Chapter: 04_positions.
    """
    angles = _angles(positions, _frequencies(width, base), torch.get_default_dtype())
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return waves.flatten(1).to(torch.get_default_dtype())


def rotary(
    x: Float[Tensor, "*b n d"],
    positions: Int[Tensor, " n"] | Int[Tensor, "batch n"],
    base: float = 10_000.0,
    *,
    scaling: Callable[[Tensor], Tensor] | None = None,
    rotary_dim: int | None = None,
) -> Float[Tensor, "*b n d"]:
    """Turn the features of each token by angles proportional to its position.

        (x_i, x_{i + d/2}) -> (x_i cos a - x_{i + d/2} sin a,  x_i sin a + x_{i + d/2} cos a)
        a = position * base^(-2 i / d),   i = 0 .. d/2 - 1

    Turned queries and keys have dot products that depend on the distance of their positions only. A key is
    therefore turned once, by its own position, before it goes into a cache.

    Args:
        x: queries or keys, d even; feature i is paired with i + d/2, as in Llama. (The paper pairs
            2i with 2i + 1: the same up to an order of the features.)
        positions: of each token in the whole sequence; behind a cache they start at ``cache.length``. With
            a row for each sequence, as left padding needs them, x is (b, h, n, d).
        base: the slowest pair turns once in about 2 pi base positions; 1 <= base.
        scaling: from the frequencies base^(-2 i / d) to those used instead, at most pi, as of
            `attncourse.rope_scaling`. If it has an ``attention_factor``, cos and sin are multiplied by it.
        rotary_dim: only so many features, the first ones, turn, and are d in the formula; even. The others
            stay as they are, as in GPT-NeoX and Phi. None: all turn.

    Raises:
        TypeError: positions are not integers.
        ValueError: d or rotary_dim is odd, rotary_dim is not from 2 to d, base is below 1, or positions
            do not fit x.

    Cost: float64 on the CPU only, for d/2 numbers; cos and sin differ from the exact ones by less than
        1e-6, in float64 by 1e-8, up to position 2**24.
    Reduces to: x when all positions are 0.
    Source: su2024, section 3.2.2; black2022 for ``rotary_dim``.
    Chapter: 04_positions.
    """
    width = x.size(-1) if rotary_dim is None else rotary_dim
    _check_fit(x, positions, width)
    frequencies = _frequencies(width, base)
    if scaling is not None:
        frequencies = scaling(frequencies)
    angles = _angles(positions, frequencies, x.dtype)
    if positions.dim() == 2:
        angles = angles[:, None]  # of all heads of a sequence
    cos, sin = angles.cos(), angles.sin()
    factor = getattr(scaling, "attention_factor", None)
    if factor is not None:
        cos, sin = cos * factor, sin * factor
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    x, rest = x[..., :width], x[..., width:]
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos, rest], dim=-1)


def _frequencies(width: int, base: float) -> Float[Tensor, " half"]:
    """base^(-2 i / width), one for each pair of features; on the CPU, because not every device has float64."""
    if width % 2:
        raise ValueError(
            f"features turn in pairs, so their number must be even; got {width}. Use {width - 1} or {width + 1}"
        )
    if base < 1:
        raise ValueError(
            f"base must be at least 1, so that the first pair is the fastest; got {base}. Usual is 10_000 or more"
        )
    last, half = 2 / width - 1, width // 2  # the exponents fall from 0 to that of i = half - 1
    return torch.logspace(0, last, half, base=base, dtype=torch.float64, device="cpu")


def _angles(
    positions: Int[Tensor, "*n"], frequencies: Float[Tensor, " half"], dtype: torch.dtype
) -> Float[Tensor, "*n half"]:
    """position * frequency, less all whole turns, in -pi .. pi.

    Far positions have large angles, of which only the remainder counts. So the product is made in
    integers, where it is exact, and rounding comes last.
    """
    if positions.is_floating_point():
        raise TypeError(
            f"positions are counted, so they must be integers; got {positions.dtype}. To squeeze positions, "
            "use scaling=interpolated(factor)"
        )
    steps = (frequencies * RADIAN).long()
    # CUDA has read so few numbers before the call returns, so there is nothing to wait for.
    steps = steps.to(positions.device, non_blocking=positions.is_cuda)
    turned = positions[..., None].long() * steps
    return turned.to(torch.promote_types(dtype, torch.float32)) / RADIAN


def _check_fit(x: Tensor, positions: Tensor, width: int) -> None:
    """Broadcasting would take one position for all tokens, or rows of sequences for rows of heads."""
    if not 0 < width <= x.size(-1):
        raise ValueError(
            f"rotary_dim must be from 2 to the {x.size(-1)} features of x; got {width}. None turns all"
        )
    rows = positions.dim() == 2 and x.dim() == 4 and positions.size(0) in (1, x.size(0))
    if not (positions.dim() == 1 or rows) or positions.size(-1) != x.size(-2):
        raise ValueError(
            "positions must be (n,), or (b, n) where x is (b, h, n, d); got "
            f"{tuple(positions.shape)} for x of {tuple(x.shape)}. Give each token of x its position"
        )
