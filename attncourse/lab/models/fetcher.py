"""One layer with one head that is asked to fetch a vector now and then, and has nothing to do otherwise."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.lab.models.transformer import MakeAttention
from attncourse.layers import MultiHeadAttention


class Fetcher(nn.Module):
    """Vectors and flags in, vectors out, for `attncourse.lab.data.idle`. Nothing passes by the attention.

        x = W [vector, flag] + position;  output = attention(x) W^O

    There is no residual, so to answer 0 the head must read something that is worth 0, or read nothing.

    Args:
        attention: makes the layer, ``attention(embed_dim, num_heads)``; for example
            ``functools.partial(SinkAttention, bias=False)``.
        width: of the vectors.
        length: longest sequence, the number of learned positions.
        embed_dim: width inside.

    Chapter: 15_sinks.
    """

    def __init__(
        self,
        attention: MakeAttention = partial(MultiHeadAttention, bias=False),  # noqa: B008
        width: int = 8,
        length: int = 32,
        embed_dim: int = 32,
    ):
        super().__init__()
        self.read = nn.Linear(width + 1, embed_dim)
        self.position = nn.Embedding(length, embed_dim)
        self.attention = attention(embed_dim, 1)
        self.answer = nn.Linear(embed_dim, width, bias=False)

    def forward(
        self,
        vectors: Float[Tensor, "b n width"],
        flags: Bool[Tensor, "b n"],
        attn_mask: Tensor | None = None,
    ) -> Float[Tensor, "b n width"]:
        """What is reported at each position; ``attn_mask`` hides tokens, as a cache that forgot them does."""
        return self.with_weights(vectors, flags, attn_mask, need_weights=False)[0]

    def with_weights(self, vectors, flags, attn_mask=None, need_weights: bool = True):
        """The report and the weights (b, 1, n, n) of the same forward pass."""
        x = self.embed(vectors, flags)
        options = {"attn_mask": attn_mask, "is_causal": True, "need_weights": need_weights}
        out = self.attention(x, **options)
        out, weights = out if need_weights else (out, None)
        return self.answer(out), weights

    def embed(self, vectors: Tensor, flags: Tensor) -> Float[Tensor, "b n embed"]:
        """The tokens as the head sees them."""
        at = torch.arange(vectors.size(1), device=vectors.device)
        return self.read(torch.cat([vectors, flags[..., None].to(vectors)], -1)) + self.position(at)

    @torch.no_grad()
    def values(self, vectors: Tensor, flags: Tensor) -> Float[Tensor, "b n embed"]:
        """The value of each token: what a head that reads it takes along."""
        v_proj: Any = self.attention.v_proj
        return v_proj(self.embed(vectors, flags))
