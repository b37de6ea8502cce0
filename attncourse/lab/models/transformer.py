"""The layers of a transformer: attention and a feed-forward network, each with a residual and a norm."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attncourse.decoding import decode
from attncourse.layers import MultiHeadAttention

# Makes the attention of a layer, an `attncourse.interface.AttentionLayer`, from its width and its number of heads.
MakeAttention = Callable[[int, int], nn.Module]


class FeedForward(nn.Sequential):
    """Two matrices with a bend between them, applied to each position by itself.

        feed_forward(x) = bend(x W_1 + b_1) W_2 + b_2

    Args:
        embed_dim: width of what comes in and of what goes out.
        hidden: width in between; ``None`` means 4 * embed_dim, as in the source.
        activation: makes the bend, a module without parameters.

    Cost: 2 embed_dim hidden + embed_dim + hidden parameters; 4 embed_dim hidden FLOPs a position.
    Source: vaswani2017, section 3.3.
    Chapter: 05_transformer.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden: int | None = None,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        hidden = 4 * embed_dim if hidden is None else hidden
        super().__init__(nn.Linear(embed_dim, hidden), activation(), nn.Linear(hidden, embed_dim))


class _Layer(nn.Module):
    """What encoder and decoder layers share: their parts, a norm for each, and the step around a part."""

    attentions: tuple[str, ...]  # the names of those that come before the feed-forward network

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        hidden: int | None = None,
        attention: MakeAttention = MultiHeadAttention,
        norm_first: bool = True,
        activation: Callable[[], nn.Module] = nn.ReLU,
        dropout: float = 0.0,
    ):
        super().__init__()
        for name in self.attentions:
            setattr(self, name, attention(embed_dim, num_heads))
        self.feed_forward = FeedForward(embed_dim, hidden, activation)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in (*self.attentions, "forward"))
        self.norm_first = norm_first
        self.drop = nn.Dropout(dropout)

    def add(self, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        """x + part(norm(x)), "pre-norm"; or norm(x + part(x)), "post-norm", as in the source."""
        if self.norm_first:
            return x + self.drop(part(norm(x)))
        return norm(x + self.drop(part(x)))


class EncoderLayer(_Layer):
    """Self-attention, then a feed-forward network; each adds its result to what came in.

        x = x + attention(norm(x));  x = x + feed_forward(norm(x))

    Args:
        embed_dim, num_heads: as in `MultiHeadAttention`.
        hidden: of the `FeedForward`.
        attention: makes the attention, ``attention(embed_dim, num_heads)``; for example
            ``functools.partial(GroupedQueryAttention, num_kv_heads=2)``.
        norm_first: normalize before each part (as above) or, as in the source, after each sum.
        activation: of the `FeedForward`.
        dropout: probability that a number of a part's result is zeroed while training.

    Cost: with the standard attention and feed-forward, 12 embed_dim^2 parameters, biases and norms left out.
    Reduces to: ``torch.nn.TransformerEncoderLayer`` with the same weights, to rounding.
    Source: vaswani2017, section 3.1; xiong2020 for the order of the norm.
    Chapter: 05_transformer.
    """

    attentions = ("attention",)
    attention: nn.Module

    def forward(
        self, x: Float[Tensor, "b n width"], maps: list[Tensor] | None = None, **options
    ) -> Float[Tensor, "b n width"]:
        """The sequence, each position having read the others.

        Args:
            x: one vector for each position.
            maps: a list to which the weights (b, h, n, n) are appended.
            options: ``attn_mask``, ``is_causal``, ``positions``, as the attention takes them.
        """
        x = self.add(x, self.norms[0], lambda y: attend(self.attention, maps, y, **options))
        return self.add(x, self.norms[1], self.feed_forward)

    def decode(
        self, x: Float[Tensor, "b n width"], cache: Any, **options
    ) -> Float[Tensor, "b n width"]:
        """The rows of new tokens, given a cache of the attention: `attncourse.decoding.decode`, and the rest as it is."""
        x = self.add(x, self.norms[0], lambda y: decode(self.attention, y, cache, **options))
        return self.add(x, self.norms[1], self.feed_forward)


class DecoderLayer(_Layer):
    """Causal self-attention, cross-attention over a memory, then a feed-forward network.

        x = x + attention(norm(x));  x = x + cross(norm(x), memory);  x = x + feed_forward(norm(x))

    Args: as in `EncoderLayer`; ``attention`` makes both attentions.

    Cost: with the standard parts, 16 embed_dim^2 parameters, biases and norms left out.
    Reduces to: ``torch.nn.TransformerDecoderLayer`` with the same weights, to rounding.
    Source: vaswani2017, section 3.1.
    Chapter: 05_transformer.
    """

    attentions = ("attention", "cross")
    attention: nn.Module
    cross: nn.Module

    def forward(
        self,
        x: Float[Tensor, "b n width"],
        memory: Float[Tensor, "b m width"],
        maps: list[Tensor] | None = None,
        memory_mask: Tensor | None = None,
        **options,
    ) -> Float[Tensor, "b n width"]:
        """The sequence, each position having read those before it and all of the memory.

        Args:
            x: one vector for each position of what is being written.
            memory: one vector for each position of what was read: the output of an encoder.
            maps: a list to which the weights of the cross-attention (b, h, n, m) are appended.
            memory_mask: of the cross-attention, for example the padding of the source.
            options: of the self-attention; causal unless ``is_causal=False``.
        """
        options = {"is_causal": True, **options}
        x = self.add(x, self.norms[0], lambda y: self.attention(y, **options))
        x = self.add(
            x, self.norms[1], lambda y: attend(self.cross, maps, y, memory, attn_mask=memory_mask)
        )
        return self.add(x, self.norms[2], self.feed_forward)


def attend(layer: nn.Module, maps: list[Tensor] | None, *inputs: Tensor, **options) -> Tensor:
    """The output of an attention layer; its weights are appended to ``maps`` if there is such a list."""
    if maps is None:
        return layer(*inputs, **options)
    output, weights = layer(*inputs, need_weights=True, **options)
    maps.append(weights)
    return output
