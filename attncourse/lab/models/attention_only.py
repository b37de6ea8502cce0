"""Small models for the figures: embeddings, attention layers with residuals, one output matrix."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attncourse.lab.models.transformer import MakeAttention
from attncourse.layers import MultiHeadAttention


class AttentionOnly(nn.Module):
    """Tokens in, logits out; nothing between the embeddings and the logits but attention.

        x = token + position;  x = x + attention(norm(x)) per layer;  logits = norm(x) W

    Args:
        vocab: number of tokens.
        length: longest sequence, the number of learned positions; ``None``: no position is added.
        embed_dim, num_heads: as in `MultiHeadAttention`.
        layers: number of attention layers.
        is_causal: no position reads a later one.
        outputs: answers per position; more than 1 adds an axis to the logits.
        num_kv_heads: key heads of every layer; ``None`` means num_heads.
        attention: makes the layers, ``attention(embed_dim, num_heads)``; for example
            ``functools.partial(MultiTokenAttention, kernel_size=(2, 5))``.
        use_rotary: the layers turn queries and keys by their positions.

    Source: elhage2021, "attention-only transformers".
    Chapter: 02_masks, 03_multi_head, 07_multi_query, 08_grouped_query, 16_disentangled, 17_multi_token, 18_linear.
    """

    def __init__(
        self,
        vocab: int,
        length: int | None,
        embed_dim: int = 32,
        num_heads: int = 1,
        layers: int = 1,
        is_causal: bool = False,
        outputs: int = 1,
        num_kv_heads: int | None = None,
        attention: MakeAttention = MultiHeadAttention,
        use_rotary: bool = False,
    ):
        super().__init__()
        self.token: nn.Module = nn.Embedding(vocab, embed_dim)
        self.position = None if length is None else nn.Embedding(length, embed_dim)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(layers + 1))
        options = {} if num_kv_heads is None else {"num_kv_heads": num_kv_heads}
        self.layers = nn.ModuleList(
            attention(embed_dim, num_heads, **options) for _ in range(layers)
        )
        self.logits = nn.Linear(embed_dim, outputs * vocab)
        self.is_causal, self.use_rotary = is_causal, use_rotary
        self.outputs = outputs

    def forward(self, tokens: Int[Tensor, "b n"], attn_mask: Tensor | None = None) -> Tensor:
        """Logits (b, n, vocab), or (b, n, outputs, vocab)."""
        return self.with_weights(tokens, attn_mask, need_weights=False)[0]

    def with_weights(
        self, tokens: Int[Tensor, "b n"], attn_mask: Tensor | None = None, need_weights: bool = True
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits and, layer by layer, the weights (b, h, n, n) of the same forward pass."""
        x, maps = self.token(tokens), []
        positions = torch.arange(tokens.size(1), device=tokens.device)
        if self.position is not None:
            x = x + self.position(positions)
        options: dict[str, Any] = {"is_causal": self.is_causal, "need_weights": need_weights}
        # Only what is asked for: a layer that somebody tries out need not take all of it.
        if attn_mask is not None:
            options["attn_mask"] = attn_mask
        if self.use_rotary:
            options["positions"] = positions
        for norm, layer in zip(self.norms, self.layers, strict=False):
            out = layer(norm(x), **options)
            if need_weights:
                out, weights = out
                maps.append(weights)
            x = x + out
        logits = self.logits(self.norms[-1](x))
        return (logits.unflatten(-1, (self.outputs, -1)) if self.outputs > 1 else logits), maps


class Translator(nn.Module):
    """A decoder with one causal self-attention and one cross-attention layer over the source.

    Args: as in `AttentionOnly`; one extra token starts the answer.

    Source: vaswani2017, section 3.1, without feed-forward layers.
    Chapter: 03_multi_head.
    """

    def __init__(self, vocab: int, length: int, embed_dim: int = 48, num_heads: int = 1):
        super().__init__()
        self.token = nn.Embedding(vocab + 1, embed_dim)
        self.position = nn.Embedding(length, embed_dim)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(4))
        self.self_attention = MultiHeadAttention(embed_dim, num_heads)
        self.cross_attention = MultiHeadAttention(embed_dim, num_heads)
        self.logits = nn.Linear(embed_dim, vocab)

    def forward(self, source: Int[Tensor, "b m"], said: Int[Tensor, "b n"]) -> Tensor:
        """Logits (b, n, vocab) of the next word, from the source and what was said so far."""
        return self.with_weights(source, said)[0]

    def with_weights(self, source: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the cross-attention weights (b, h, n, m) of the same forward pass."""
        memory = self.norms[0](self._embed(source))
        x = self._embed(said)
        x = x + self.self_attention(self.norms[1](x), is_causal=True)
        out, weights = self.cross_attention(self.norms[2](x), memory, need_weights=True)
        return self.logits(self.norms[3](x + out)), weights

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.token(tokens) + self.position(
            torch.arange(tokens.size(1), device=tokens.device)
        )
