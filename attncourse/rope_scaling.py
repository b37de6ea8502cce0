"""How rotary frequencies are slowed so that a model reads further than it was trained: ``rotary(scaling=...)``.

Each is made from its numbers, and then takes the frequencies, from fast to slow in radians per position, and gives
those used instead. They are lower case like ``functools.partial``, and classes so that a layer that holds one can be
pickled, compared and printed.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class interpolated:
    """Position interpolation: all pairs turn slower by one factor, as if positions were squeezed.

        f -> f / factor

    Args:
        factor: how many times longer texts become; 1 <= factor. 1 changes nothing.

    Raises:
        ValueError: factor is below 1.

    Reduces to: the plain frequencies at factor 1.
    Source: chen2023, position interpolation.
    Chapter: 04_positions.
    """

    factor: float

    def __post_init__(self):
        _check_factor(self.factor)

    def __call__(self, frequencies: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        return frequencies / self.factor


@dataclass(frozen=True)
class ntk:
    """NTK-aware: the slowest pair turns slower by the factor, the fastest as before, for a larger base.

        base -> base * factor^(d / (d - 2)),   which is   f_i -> f_i * factor^(-i / (d/2 - 1))

    Args:
        factor: by which the slowest pair is slowed; 1 <= factor. 1 changes nothing.

    Raises:
        ValueError: factor is below 1, or there is one pair only, which cannot be fastest and slowest.

    Reduces to: the plain frequencies at factor 1.
    Source: peng2023, "NTK-aware" interpolation. transformers calls it dynamic, because the factor
        follows the length there.
    Chapter: 04_positions.
    """

    factor: float

    def __post_init__(self):
        _check_factor(self.factor)

    def __call__(self, frequencies: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        pair = _pairs(frequencies)
        return frequencies * self.factor ** (-pair / (len(frequencies) - 1))


@dataclass(frozen=True)
class yarn:
    """YaRN: pairs that turn often within the trained length stay, slow ones are interpolated; scores grow.

        f_i -> (1 - r_i) f_i + r_i f_i / factor,   r_i = clip((i - first) / (last - first), 0, 1)
        first = floor(pair(beta_fast)),   last = ceil(pair(beta_slow))

    where pair(t) is the index, with a fraction, at which a pair turns t times within original_length.
    ``rotary`` multiplies cos and sin by ``attention_factor``, as transformers does: so that one argument
    brings all that a released model was trained with.

    Args:
        factor: how many times longer texts become; 1 <= factor. 1 changes nothing.
        original_length: tokens of the texts that the model was trained with.
        beta_fast: pairs with more turns than this stay; beta_slow < beta_fast.
        beta_slow: pairs with fewer turns than this are slowed by the whole factor; positive.

    Raises:
        ValueError: factor is below 1, original_length or beta_slow is not positive, beta_fast is not above
            beta_slow, or there is one pair only, from which no ramp can be read.

    Reduces to: the plain frequencies at factor 1; `interpolated` where all pairs are slow, but for
        attention_factor.
    Source: peng2023. In the paper r is linear in the number of turns; in its code, in transformers and here, in i.
    Chapter: 04_positions.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def __post_init__(self):
        _check_factor(self.factor)
        _check_turns(self.original_length, beta_slow=self.beta_slow, beta_fast=self.beta_fast)

    @property
    def attention_factor(self) -> float:
        """How much queries and keys grow, which is `yarn_temperature` of the factor."""
        return yarn_temperature(self.factor)

    def __call__(self, frequencies: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        pair = _pairs(frequencies)
        turns = frequencies[0] * self.original_length / math.tau  # of the fastest pair
        step = torch.log(frequencies[0] / frequencies[-1]) / pair[-1]
        first = (torch.log(turns / self.beta_fast) / step).floor().clamp(min=0)
        last = (torch.log(turns / self.beta_slow) / step).ceil().clamp(max=2 * len(pair) - 1)
        ramp = ((pair - first) / (last - first).clamp(min=1e-3)).clamp(0, 1)
        return (1 - ramp) * frequencies + ramp * frequencies / self.factor


@dataclass(frozen=True)
class llama3:
    """Llama 3.1: pairs that turn often within the trained length stay, slow ones are interpolated.

        f -> r f + (1 - r) f / factor,   r = clip((turns - low) / (high - low), 0, 1),   turns = f original_length / 2 pi

    Args:
        factor: how many times longer texts become; 1 <= factor. 1 changes nothing. 8 in Llama 3.1.
        low_freq_factor: pairs with fewer turns than this are slowed by the whole factor; 1 in Llama 3.1.
        high_freq_factor: pairs with more turns than this stay; above low_freq_factor, 4 in Llama 3.1.
        original_length: tokens of the texts that the model was trained with; 8192 in Llama 3.1.

    Raises:
        ValueError: factor is below 1, original_length or low_freq_factor is not positive, or
            high_freq_factor is not above low_freq_factor.

    Reduces to: the plain frequencies at factor 1; `interpolated` where all pairs are slow.
    Source: the code released with Llama 3.1, ``apply_scaling``. grattafiori2024 has the base, 500,000, only.
    Chapter: 04_positions.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int

    def __post_init__(self):
        _check_factor(self.factor)
        limits = {
            "low_freq_factor": self.low_freq_factor,
            "high_freq_factor": self.high_freq_factor,
        }
        _check_turns(self.original_length, **limits)

    def __call__(self, frequencies: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        turns = frequencies * self.original_length / math.tau
        low, high = self.low_freq_factor, self.high_freq_factor
        stays = ((turns - low) / (high - low)).clamp(0, 1)
        return stays * frequencies + (1 - stays) * frequencies / self.factor


def yarn_temperature(factor: float) -> float:
    """By how much `yarn` lengthens queries and keys; scores grow by its square, which is 1/t in the paper.

        0.1 ln(factor) + 1

    Raises:
        ValueError: factor is below 1.

    Source: peng2023, where it is fitted to models of the Llama family.
    """
    _check_factor(factor)
    return 0.1 * math.log(factor) + 1


def _pairs(frequencies: Tensor) -> Tensor:
    """0, 1, .. of the pairs, which must be two at least to have a fastest and a slowest."""
    if len(frequencies) < 2:
        raise ValueError(
            f"at least 2 pairs must turn; got {len(frequencies)}. Use interpolated(factor)"
        )
    return torch.arange(len(frequencies), dtype=frequencies.dtype, device=frequencies.device)


def _check_factor(factor: float) -> None:
    if not factor >= 1:
        raise ValueError(
            f"factor says how many times longer texts become, at least 1; got {factor}. To go from 4096 to 32768 "
            "tokens use 8"
        )


def _check_turns(original_length: int, **limits: float) -> None:
    (slow, low), (fast, high) = limits.items()
    if not original_length > 0:
        raise ValueError(
            f"original_length counts the tokens that the model was trained with; got {original_length}. Use "
            "its context length before it was extended"
        )
    if not 0 < low < high:
        raise ValueError(
            f"{slow} and {fast} count turns, 0 < {slow} < {fast}; got {low} and {high}. "
            "Usual are 1 and 4, or 1 and 32"
        )
