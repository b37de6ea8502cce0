"""A key-value cache for a sliding window: the newest token takes the place of the oldest, and nothing grows."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.cache import BoundedCache, KVCache, Rotary
from attncourse.decoding import decode_with_cache, decodes
from attncourse.interface import whole
from attncourse.variants.window import SlidingWindowAttention, pair, sliding_window_attention


class RollingKVCache(BoundedCache):
    """Keys and values of the last window + 1 tokens, however many have passed.

        the token at position p lies in slot p mod (window + 1)

    Args:
        batch, num_kv_heads: as in `attncourse.cache.KVCache`.
        window: tokens that a token reads besides itself, all before it; 0 or more.
        head_dim: width of a key.
        options: value_dim, dtype and device, as in `attncourse.cache.KVCache`.

    Raises:
        ValueError: a negative window. TypeError: one that is not whole.

    Cost: memory for window + 1 tokens; a step reads as many keys, at position 100 as at position 100,000.
    Reduces to: `attncourse.cache.KVCache` while no token has been overwritten.
    Source: jiang2023, section 2.
    Chapter: 13_sliding_window.
    """

    def __init__(self, batch: int, num_kv_heads: int, window: int, head_dim: int, **options):
        window = whole("window", window)
        if window < 0:
            raise ValueError(
                f"window counts the tokens before the one that reads and must be 0 or more; got {window}"
            )
        super().__init__(batch, num_kv_heads, window + 1, head_dim, **options)
        self.window = window

    def append(
        self,
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        present: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b g m d"], Float[Tensor, "b g m e"]]:
        """Write n tokens over the oldest ones; returns what is kept, slot by slot, as views.

        Raises:
            ValueError: the tokens do not fit in shape. The cache is then as before.
        """
        self.check(key, value)
        self.begin()
        size = self.max_length
        tokens = self.positions(key.size(2))[-size:]
        present = None if present is None else present[:, -size:]
        self.overwrite(tokens, tokens % size, key[:, :, -size:], value[:, :, -size:], present)
        self.length += key.size(2)
        return self.key[:, :, : self.length], self.value[:, :, : self.length]

    def in_order(self) -> tuple[Float[Tensor, "b g m d"], Float[Tensor, "b g m e"]]:
        """A copy of what is kept, the oldest token first."""
        return self.key[:, :, self._slots()], self.value[:, :, self._slots()]

    def attend(
        self,
        query: Float[Tensor, "b h n d"],
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        rotary: Rotary | None = None,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b h n e"]:
        """What n new tokens read: each itself and the ``window`` tokens before it.

        A single one reads the slots as they lie, since a softmax does not depend on the order and a turned key
        knows its position. Several overwrite what the first of them still has to read, so they are given
        the old tokens and the new ones in a row.

        Args: as in `attncourse.cache.KVCache.attend`.
        """
        n = query.size(2)
        if n == 1:
            return super().attend(query, key, value, rotary, present)
        if rotary is not None:
            positions = self.positions(n)
            query, key = rotary(query, positions), rotary(key, positions)
        old, new = self.in_order(), (key.to(self.key.dtype), value.to(self.value.dtype))
        k, v = (torch.cat(pair, dim=2) for pair in zip(old, new, strict=True))
        real = self._present(present, n)
        self.append(key, value, present)
        options: dict[str, Any] = {"enable_gqa": True, "offset": k.size(2) - n, "key_mask": real}
        window = (self.window, 0)
        return sliding_window_attention(query.to(k.dtype), k, v, window, **options).to(query.dtype)

    def _slots(self) -> Int[Tensor, " m"]:
        """Where the tokens lie, from the oldest to the newest."""
        first = max(0, self.length - self.max_length)
        return torch.arange(first, self.length, device=self.key.device) % self.max_length

    def _present(self, new: Tensor | None, n: int) -> Bool[Tensor, "b m"] | None:
        """Which of the old tokens in order, and of n new ones, are no padding; ``None``: all of them."""
        if new is None and self.present is None:
            return None
        ones = torch.ones(self.key.size(0), n + self.max_length, dtype=torch.bool)
        old = ones if self.present is None else self.present
        new = ones[:, :n] if new is None else new
        return torch.cat([old.to(new.device)[:, self._slots()], new], dim=1)

    def __repr__(self) -> str:
        b, g, slots, d = self.key.shape
        return (
            f"RollingKVCache(the last {min(self.length, slots)} of {self.length} tokens in {slots} slots, "
            f"batch {b}, {g} key/value heads of width {d})"
        )


def cache_of(layer: SlidingWindowAttention, batch: int, max_length: int) -> KVCache:
    """The cache that a layer needs: as long as its window on the left, however many tokens come."""
    return RollingKVCache.of(layer, batch, pair(layer.window_size)[0])


@decodes(SlidingWindowAttention, cache_of)
def _(layer: SlidingWindowAttention, x, cache, **options):
    """A cache that keeps more tokens, or fewer, would make another layer of it."""
    left, _ = pair(layer.window_size)
    if not (isinstance(cache, RollingKVCache) and cache.window == left):
        raise ValueError(
            f"the layer reads itself and {left} tokens before; it needs a RollingKVCache with "
            f"window={left}; got {cache}"
        )
    return decode_with_cache(layer, x, cache, **options)
