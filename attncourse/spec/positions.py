"""The definitions of positions as waves: vectors that are added, angles to turn by, and those for longer texts."""

import math

from torch import Tensor


def sinusoidal(position: int, width: int, base: float = 10_000.0) -> list[float]:
    """Feature 2 i is the sine, feature 2 i + 1 the cosine of position * base^(-2 i / width): vaswani2017, section 3.5."""
    vector = []
    for i in range(width // 2):
        angle = position * base ** (-2 * i / width)
        vector += [math.sin(angle), math.cos(angle)]
    return vector


def rotary(
    x: Tensor,
    positions: list[int],
    base: float = 10_000.0,
    frequencies: list[float] | None = None,
    factor: float = 1.0,
) -> Tensor:
    """Feature i and feature i + d/2 turn by position * base^(-2 i / d): su2024, section 3.2.2.

    Args:
        frequencies: used instead of base^(-2 i / d); with fewer than d/2 of them, d is twice their number,
            and the features behind these stay.
        factor: cos and sin are multiplied by it.
    """
    if frequencies is None:
        frequencies = rotary_frequencies(x.size(-1), base)
    half = len(frequencies)
    out = x.clone()
    for row, position in enumerate(positions):
        for i in range(half):
            angle = float(position) * frequencies[i]
            a, b = x[..., row, i], x[..., row, i + half]
            out[..., row, i] = factor * (a * math.cos(angle) - b * math.sin(angle))
            out[..., row, i + half] = factor * (a * math.sin(angle) + b * math.cos(angle))
    return out


def rotary_frequencies(width: int, base: float = 10_000.0) -> list[float]:
    """base^(-2 i / width), i = 0 .. width/2 - 1: su2024, section 3.2.2."""
    half, odd = divmod(width, 2)
    if odd:
        raise ValueError(f"features turn in pairs; got {width}")
    return [base ** (-2 * i / width) for i in range(half)]


def interpolated_frequencies(width: int, base: float, factor: float) -> list[float]:
    """Each over the factor: chen2023."""
    return [f / factor for f in rotary_frequencies(width, base)]


def ntk_frequencies(width: int, base: float, factor: float) -> list[float]:
    """Those of the base times factor^(width / (width - 2)): peng2023, "NTK-aware" interpolation."""
    return rotary_frequencies(width, base * factor ** (width / (width - 2)))


def yarn_frequencies(
    width: int, base: float, factor: float, length: float, beta_fast: float, beta_slow: float
) -> list[float]:
    """A ramp over the pairs, from kept to interpolated ones: the code of peng2023."""

    def pair(turns: float) -> float:
        # turns = length base^(-2 pair / width) / (2 pi), solved for the pair
        return width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = max(math.floor(pair(beta_fast)), 0), min(math.ceil(pair(beta_slow)), width - 1)
    slowed = []
    for i, f in enumerate(rotary_frequencies(width, base)):
        if i <= first:
            slowed.append(f)
        elif i >= last:
            slowed.append(f / factor)
        else:
            share = (i - first) / (last - first)
            slowed.append((1 - share) * f + share * f / factor)
    return slowed


def llama3_frequencies(
    width: int, base: float, factor: float, low: float, high: float, length: float
) -> list[float]:
    """By how often a pair turns within the trained length: the code released with Llama 3.1."""
    slowed = []
    for f in rotary_frequencies(width, base):
        turns = length * f / (2 * math.pi)
        if turns < low:
            slowed.append(f / factor)
        elif turns > high:
            slowed.append(f)
        else:
            share = (turns - low) / (high - low)
            slowed.append((1 - share) * f / factor + share * f)
    return slowed
