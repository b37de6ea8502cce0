"""Going on behind a cache: how each kind of layer computes the outputs of new tokens only."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.cache import KVCache
from attncourse.interface import check_inputs, key_mask
from attncourse.layers import MultiHeadAttention


class Decoder(NamedTuple):
    """How layers of a class decode, and the empty cache that one of them begins with."""

    run: Callable[..., Tensor]
    make_cache: Callable[..., Any]


DECODERS: dict[type[nn.Module], Decoder] = {}


def decodes(
    kind: type[nn.Module], make_cache: Callable[..., Any] = KVCache.of
) -> Callable[[Callable], Callable]:
    """Register a function as how `decode` decodes layers of this class.

    Args:
        kind: the class.
        make_cache: called as ``make_cache(layer, batch, max_length)`` by `new_cache`.
    """

    def register(run: Callable) -> Callable:
        DECODERS[kind] = Decoder(run, make_cache)
        return run

    return register


def new_cache(layer: nn.Module, batch: int, max_length: int) -> Any:
    """An empty cache of the kind that `decode` needs for this layer.

    Args:
        layer: whose tokens it will keep.
        batch: sequences that grow side by side.
        max_length: tokens that fit; a cache that does not grow ignores it.

    Raises:
        TypeError: no decoder knows how the layer attends.

    Chapter: 06_kv_cache.
    """
    return _decoder(layer).make_cache(layer, batch, max_length)


@torch.no_grad()
def decode(
    layer: nn.Module,
    x: Float[Tensor, "b n width"],
    cache: Any,
    *,
    attn_mask: Bool[Tensor, "b 1 1 n"] | None = None,
    **options: bool,
) -> Float[Tensor, "b n width"]:
    """The outputs of a causal layer for n new tokens, given a cache of the tokens before.

    Args:
        layer: self-attention with any number of key/value heads, or another layer whose class says with
            `decodes` how it decodes.
        x: the new tokens only: all of a prompt, one of its chunks, or a single token.
        cache: of this layer, from `new_cache`; the new keys and values are appended.
        attn_mask: ``False`` where a new token is padding, as on the left of shorter prompts; the cache remembers.
        options: ``use_rotary`` turns queries and keys by their positions, as the cache counts them;
            `attncourse.variants.latent.LatentAttention`, which always does, takes ``absorbed``.

    Returns: the rows that ``layer(all tokens, is_causal=True)`` ends with. No gradient flows back.

    Raises:
        TypeError: no decoder knows how the layer attends.
        ValueError: another mask than of padding, or inputs that the layer or the cache refuses.

    Cost: projections of n tokens and `cached_attention`; without a cache, of all m tokens.
    Reduces to: ``layer(x, is_causal=True)`` when the cache is empty.
    Source: pope2023, section 2.1.
    Chapter: 06_kv_cache.
    """
    decoder = _decoder(layer)
    width: Any = getattr(layer, "embed_dim", x.size(-1))  # a layer of your own need not say
    check_inputs(x, x, x, width, width, width)
    visible = key_mask(attn_mask, layer, "behind a cache only padding can be hidden")
    present = None if visible is None else visible.expand(x.size(0), 1, -1)[:, 0]
    return decoder.run(layer, x, cache, present=present, **options)


@decodes(MultiHeadAttention)
def decode_with_cache(
    layer: MultiHeadAttention,
    x: Float[Tensor, "b n width"],
    cache: KVCache,
    *,
    use_rotary: bool = False,
    present: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n width"]:
    """Project the new tokens, and let the cache answer their queries."""
    query, key, value = layer.project(x, x, x)
    heads = cache.attend(query, key, value, layer.rotary if use_rotary else None, present)
    return layer.join(heads, x)


def decode_by_attend(
    layer: MultiHeadAttention,
    x: Float[Tensor, "b n width"],
    cache: KVCache,
    *,
    use_rotary: bool = False,
    present: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n width"]:
    """For layers with an `attend` of their own: they read all cached tokens, and are told where the new ones stand."""
    if type(cache) is not KVCache:
        raise TypeError(
            f"{type(layer).__name__} decodes with a KVCache, which keeps every token; got {type(cache).__name__}"
        )
    n = x.size(1)
    query, key, value = layer.project(x, x, x, cache.positions(n) if use_rotary else None)
    keys, values = (kept.to(query.dtype) for kept in cache.append(key, value, present))
    visible, offset = cache.visible(), keys.size(2) - n
    heads, _ = layer.attend(query, keys, values, visible, is_causal=True, offset=offset)
    return layer.join(heads, x)


def _decoder(layer: nn.Module) -> Decoder:
    """That of the layer's class, or of the nearest class above it that has one."""
    own: Any = type(layer)
    kind = next((parent for parent in own.__mro__ if parent in DECODERS), None)
    if kind is None or (issubclass(kind, MultiHeadAttention) and own.attend is not kind.attend):
        known = ", ".join(x.__name__ for x in DECODERS)
        raise TypeError(
            f"decode knows how to go on with {known}; got {own.__name__}, which attends in its own way. "
            f"Call the layer on all tokens, or register a decoder: attncourse.decoding.decodes({own.__name__})"
        )
    return DECODERS[kind]
