"""The key-value cache, and one decoding step that reads it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.layers import MultiHeadAttention, merge_heads
from attncourse.positions import rotary


class KVCache:
    """Keys and values of the tokens so far, in memory that is allocated once.

    Args:
        batch: sequences that grow side by side.
        num_kv_heads: key/value heads of the layer; 1 for multi-query attention.
        max_length: tokens that fit.
        head_dim: width of a key.
        value_dim: width of a value; ``None`` means head_dim.
        dtype, device: of the tensors; ``None`` means torch's default.

    Cost: batch * num_kv_heads * max_length * (head_dim + value_dim) numbers, from the start.
    Source: pope2023, section 2.1.
    Chapter: 06_kv_cache.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        max_length: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        value_dim = head_dim if value_dim is None else value_dim
        self.key, self.value = (
            torch.empty(batch, num_kv_heads, max_length, width, dtype=dtype, device=device)
            for width in (head_dim, value_dim)
        )
        self.length = 0

    @classmethod
    def of(cls, layer: MultiHeadAttention, batch: int, *sizes: int, **named: Any) -> "KVCache":
        """An empty cache in the shape, dtype and device of a layer; the sizes are max_length."""
        weight, g = layer.k_proj.weight, layer.num_kv_heads
        named |= {"head_dim": weight.size(0) // g, "dtype": weight.dtype, "device": weight.device}
        return cls(batch, g, *sizes, **named)

    @property
    def max_length(self) -> int:
        return self.key.size(2)

    @property
    def nbytes(self) -> int:
        """Bytes of both tensors, filled or not, as `attncourse.cost.kv_cache_bytes` says for one layer."""
        return self.key.nbytes + self.value.nbytes

    def positions(self, n: int) -> Int[Tensor, " n"]:
        """Where the next n tokens will stand."""
        return torch.arange(self.length, self.length + n, device=self.key.device)

    def append(
        self, key: Float[Tensor, "b g n d"], value: Float[Tensor, "b g n e"]
    ) -> tuple[Float[Tensor, "b g m d"], Float[Tensor, "b g m e"]]:
        """Write n tokens behind those that are there; returns all m, as views.

        Nothing is copied but the new tokens. Gradients do not flow through a cache.

        Raises:
            ValueError: the tokens do not fit, in number or in shape. The cache is then as before.
        """
        self.check(key, value)
        n = key.size(2)
        end = self.length + n
        if end > self.max_length:
            raise ValueError(
                f"the cache holds {self.max_length} tokens, {self.length} are used and {n} more came; make "
                f"it with max_length={end} or more, or feed fewer tokens"
            )
        self.key[:, :, self.length : end] = key.detach()
        self.value[:, :, self.length : end] = value.detach()
        self.length = end
        return self.key[:, :, :end], self.value[:, :, :end]

    def check(self, key: Tensor, value: Tensor) -> None:
        """Refuse keys and values that are not of this cache's batch, heads and widths."""
        rows = (*self.key.shape[:2], key.size(2))
        wanted = (*rows, self.key.size(3)), (*rows, self.value.size(3))
        if (key.shape, value.shape) != wanted:
            raise ValueError(
                f"key and value must be {wanted[0]} and {wanted[1]}; got {tuple(key.shape)} and "
                f"{tuple(value.shape)}. One cache serves one layer and one batch"
            )

    def attend(
        self,
        query: Float[Tensor, "b h n d"],
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        use_rotary: bool = False,
    ) -> Float[Tensor, "b h n e"]:
        """What n new tokens read: themselves and all before. Their keys and values are appended.

        A cache that keeps its tokens in another way reads them in its own way, too, so `decode` asks it.

        Args:
            query, key, value: of the new tokens, not turned yet.
            use_rotary: turn queries and keys by their positions; keys are cached turned.
        """
        if use_rotary:
            positions = self.positions(query.size(2))
            query, key = rotary(query, positions), rotary(key, positions)
        return cached_attention(query, *self.append(key, value))

    def __repr__(self) -> str:
        b, g, _, d = self.key.shape
        return f"KVCache({self.length} of {self.max_length} tokens, batch {b}, {g} key/value heads of width {d})"


def cached_attention(
    query: Float[Tensor, "b h n d"], key: Float[Tensor, "b g m d"], value: Float[Tensor, "b g m e"]
) -> Float[Tensor, "b h n e"]:
    """The last n of m tokens ask; each reads every token up to itself.

        visible(i, j) = j <= i + m - n          query head h reads KV head h // (h / g)

    The query heads of a group become further rows of one head. So the keys and values are read where
    they lie: repeating them for every query head would copy the whole cache at every step.

    Cost: 2 n m (d + e) FLOPs per query head; every number of key and value is read once.
    Reduces to: `attncourse.steps.attention` when n = m and g = h, under a causal mask.
    Source: shazeer2019, section 3.1; ainslie2023, section 2.2.
    Chapter: 06_kv_cache.
    """
    (_, h, n, _), (_, g, m, _) = query.shape, key.shape
    rows = query.unflatten(1, (g, h // g)).flatten(2, 3)
    visible = None
    if n > 1:
        i, j = torch.arange(n, device=key.device), torch.arange(m, device=key.device)
        visible = (j <= i[:, None] + m - n).repeat(h // g, 1)
    output = F.scaled_dot_product_attention(rows, key, value, visible)
    return output.unflatten(2, (h // g, n)).flatten(1, 2)


DECODERS: dict[type[nn.Module], Callable[..., Tensor]] = {}


def decodes(kind: type[nn.Module]) -> Callable[[Callable], Callable]:
    """Register a function as how `decode` decodes layers of this class."""

    def register(decoder: Callable) -> Callable:
        DECODERS[kind] = decoder
        return decoder

    return register


@torch.no_grad()
def decode(
    layer: nn.Module, x: Float[Tensor, "b n width"], cache: Any, **options: bool
) -> Float[Tensor, "b n width"]:
    """The outputs of a causal layer for n new tokens, given a cache of the tokens before.

    Args:
        layer: self-attention with any number of key/value heads, or another layer whose class says with
            `decodes` how it decodes.
        x: the new tokens only: all of a prompt, one of its chunks, or a single token.
        cache: of this layer; the new keys and values are appended.
        options: ``use_rotary`` turns queries and keys by their positions, as the cache counts them;
            `attncourse.variants.latent.LatentAttention` takes ``absorbed`` in its place.

    Returns: the rows that ``layer(all tokens, is_causal=True)`` ends with. No gradient flows back.

    Raises:
        TypeError: no decoder knows how the layer attends.

    Cost: projections of n tokens and `cached_attention`; without a cache, of all m tokens.
    Reduces to: ``layer(x, is_causal=True)`` when the cache is empty.
    Source: pope2023, section 2.1.
    Chapter: 06_kv_cache.
    """
    own: Any = type(layer)
    kind = next((parent for parent in own.__mro__ if parent in DECODERS), None)
    if kind is None or (issubclass(kind, MultiHeadAttention) and own.attend is not kind.attend):
        known = ", ".join(x.__name__ for x in DECODERS)
        raise TypeError(
            f"decode knows how to go on with {known}; got {own.__name__}, which attends in its own way. "
            f"Call the layer on all tokens, or register a decoder: attncourse.cache.decodes({own.__name__})"
        )
    return DECODERS[kind](layer, x, cache, **options)


@decodes(MultiHeadAttention)
def decode_with_cache(
    layer: MultiHeadAttention,
    x: Float[Tensor, "b n width"],
    cache: KVCache,
    *,
    use_rotary: bool = False,
) -> Float[Tensor, "b n width"]:
    """Project the new tokens, and let the cache answer their queries."""
    query, key, value = layer.project(x, x, x)
    return layer.out_proj(merge_heads(cache.attend(query, key, value, use_rotary)))
