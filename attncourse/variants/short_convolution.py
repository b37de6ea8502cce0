"""A short convolution: each channel of a token is mixed with the same channel of the few tokens before it."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class ShortConvolution(nn.Module):
    """A few tokens, weighted channel by channel, and a SiLU behind them; causal.

        y(t, c) = silu(sum_{s < size} weight(c, s) x(t - size + 1 + s, c)),      x = 0 before the first token

    A state compares a key with all keys at once; what stands next to each other it only sees through this.

    Args:
        channels: width of x.
        size: tokens that each output sees, itself and those before it.

    Raises:
        ValueError: size is below 1.

    Cost: 2 size FLOPs and size parameters a channel; size - 1 inputs are kept for the tokens that follow.
    Reduces to: silu(x) when the last weight of each channel is 1 and the others are 0.
    Source: yang2025.
    Chapter: 19_gated_delta.
    """

    def __init__(self, channels: int, size: int):
        super().__init__()
        if size < 1:
            raise ValueError(f"size counts the token itself and must be at least 1; got {size}")
        self.size = size
        bound = 1 / math.sqrt(size)
        self.weight = nn.Parameter(torch.empty(channels, size).uniform_(-bound, bound))

    def forward(
        self, x: Float[Tensor, "b n c"], tail: Float[Tensor, "b t c"] | None = None
    ) -> tuple[Float[Tensor, "b n c"], Float[Tensor, "b t c"]]:
        """The outputs, and the last size - 1 inputs.

        Args:
            x: the tokens.
            tail: the size - 1 inputs before them; ``None``: there were none.
        """
        n = x.size(1)
        if tail is None:
            tail = x.new_zeros(x.size(0), self.size - 1, x.size(2))
        x = torch.cat([tail.to(x.dtype), x], dim=1)
        y = x.new_zeros(())
        for s in range(self.size):
            y = y + self.weight[:, s] * x[:, s : s + n]
        return F.silu(y), x[:, n:]

    def extra_repr(self) -> str:
        return f"channels={self.weight.size(0)}, size={self.size}"
