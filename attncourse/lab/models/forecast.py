"""A transformer for numbers instead of words: it forecasts a signal from what it has seen of it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.lab.models.stacks import Encoder
from attncourse.positions import sinusoidal


class Forecaster(nn.Module):
    """The next values of a signal, from the last ones.

        x = value W_in + position;  forecast = causal encoder(x) W_out, read at the last position

    Args:
        horizon: number of values that are forecast at once.
        embed_dim, num_heads: as in `MultiHeadAttention`; embed_dim even, for the sinusoids.
        layers: of the encoder.
        options: of the layers, for example ``attention`` or ``hidden``.

    Source: vaswani2017, section 3.1, with numbers in place of words.
    Chapter: 05_transformer, 18_linear.
    """

    def __init__(
        self, horizon: int = 8, embed_dim: int = 32, num_heads: int = 4, layers: int = 2, **options
    ):
        super().__init__()
        self.value = nn.Linear(1, embed_dim)
        self.encoder = Encoder(embed_dim, num_heads, layers, **options)
        self.forecast = nn.Linear(embed_dim, horizon)

    def forward(self, past: Float[Tensor, "b n"]) -> Float[Tensor, "b horizon"]:
        """The values that follow ``past``."""
        positions = torch.arange(past.size(1), device=past.device)
        x = self.value(past[..., None])
        x = x + sinusoidal(positions, x.size(-1)).to(x)
        return self.forecast(self.encoder(x, is_causal=True)[:, -1])
