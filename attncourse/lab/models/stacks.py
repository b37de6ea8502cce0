"""Stacks of layers: encoder, decoder, and the transformer that joins them."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.decoding import new_cache
from attncourse.lab.models.transformer import DecoderLayer, EncoderLayer
from attncourse.positions import sinusoidal


class Encoder(nn.Module):
    """Several encoder layers, one behind the other; pre-norm stacks end in one more norm.

    Args:
        embed_dim, num_heads: as in `MultiHeadAttention`.
        layers: number of `EncoderLayer` s.
        options: of the layers, for example ``attention``, ``hidden`` or ``norm_first``.

    Cost: layers times that of `EncoderLayer`.
    Source: vaswani2017, section 3.1; a language model is the same stack with ``is_causal=True``.
    Chapter: 05_transformer.
    """

    def __init__(self, embed_dim: int, num_heads: int, layers: int = 2, **options):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(embed_dim, num_heads, **options) for _ in range(layers)
        )
        self.norm = _last_norm(embed_dim, options)

    def forward(
        self, x: Float[Tensor, "b n width"], maps: list[Tensor] | None = None, **options
    ) -> Float[Tensor, "b n width"]:
        """The sequence after all layers; arguments as in `EncoderLayer.forward`."""
        for layer in self.layers:
            x = layer(x, maps, **options)
        return self.norm(x)

    def new_caches(self, batch: int, max_length: int) -> list[Any]:
        """An empty cache for the attention of each layer."""
        layers: Any = self.layers
        return [new_cache(layer.attention, batch, max_length) for layer in layers]

    def decode(
        self, x: Float[Tensor, "b n width"], caches: list[Any], **options
    ) -> Float[Tensor, "b n width"]:
        """The rows of new tokens behind those that are in the caches; options as in `attncourse.decoding.decode`."""
        layers: Any = self.layers
        for layer, cache in zip(layers, caches, strict=True):
            x = layer.decode(x, cache, **options)
        return self.norm(x)


class Decoder(nn.Module):
    """Several decoder layers over one memory; pre-norm stacks end in one more norm.

    Args: as in `Encoder`.

    Cost: layers times that of `DecoderLayer`.
    Source: vaswani2017, section 3.1.
    Chapter: 05_transformer.
    """

    def __init__(self, embed_dim: int, num_heads: int, layers: int = 2, **options):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(embed_dim, num_heads, **options) for _ in range(layers)
        )
        self.norm = _last_norm(embed_dim, options)

    def forward(
        self,
        x: Float[Tensor, "b n width"],
        memory: Float[Tensor, "b m width"],
        maps: list[Tensor] | None = None,
        **options,
    ) -> Float[Tensor, "b n width"]:
        """The sequence after all layers; arguments as in `DecoderLayer.forward`."""
        for layer in self.layers:
            x = layer(x, memory, maps, **options)
        return self.norm(x)


class Transformer(nn.Module):
    """Reads a sequence of tokens, writes another: encoder, decoder, logits of the next token.

        memory = encoder(token + position);  logits = decoder(token + position, memory) W

    Args:
        source_vocab, target_vocab: number of tokens that are read, and written.
        embed_dim, num_heads: as in `MultiHeadAttention`; embed_dim even, for the sinusoids.
        layers: of the encoder, and as many of the decoder.
        options: of the layers, for example ``attention``, ``hidden`` or ``norm_first``.

    Source: vaswani2017, figure 1.
    Chapter: 05_transformer.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        embed_dim: int = 64,
        num_heads: int = 4,
        layers: int = 2,
        **options,
    ):
        super().__init__()
        self.source = nn.Embedding(source_vocab, embed_dim)
        self.target = nn.Embedding(target_vocab, embed_dim)
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=embed_dim**-0.5)
        self.encoder = Encoder(embed_dim, num_heads, layers, **options)
        self.decoder = Decoder(embed_dim, num_heads, layers, **options)
        self.logits = nn.Linear(embed_dim, target_vocab)

    def forward(
        self,
        source: Int[Tensor, "b m"],
        said: Int[Tensor, "b n"],
        source_mask: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "b n vocab"]:
        """Logits of the next token, from the source and from what has been said so far.

        Args:
            source: tokens that are read.
            said: tokens that are written; position i of the answer reads said[0..i].
            source_mask: who may be read in the source, (b, 1, 1, m) for padding, ``True`` = may attend.
            maps: a list to which the decoder's cross-attention weights are appended, layer by layer.
        """
        memory = self.encoder(with_positions(self.source, source), attn_mask=source_mask)
        x = with_positions(self.target, said)
        return self.logits(self.decoder(x, memory, maps, memory_mask=source_mask))


def with_positions(
    embedding: nn.Embedding, tokens: Int[Tensor, "b n"]
) -> Float[Tensor, "b n width"]:
    """The tokens' vectors times sqrt(width), as in vaswani2017, section 3.4, plus the sinusoids.

    The two are of one size if the embedding starts with numbers of the size 1 / sqrt(width).
    """
    width = embedding.embedding_dim
    positions = torch.arange(tokens.size(1), device=tokens.device)
    return embedding(tokens) * width**0.5 + sinusoidal(positions, width).to(embedding.weight)


def _last_norm(embed_dim: int, options: dict) -> nn.Module:
    return nn.LayerNorm(embed_dim) if options.get("norm_first", True) else nn.Identity()
