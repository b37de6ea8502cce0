"""Streaming with sinks: the first tokens and the last ones stay in the cache, what lies between is forgotten."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.cache import BoundedCache, Rotary, cached_attention
from attncourse.interface import check_sequences
from attncourse.positions import rotary
from attncourse.steps import mask, mix, normalize, repeat_heads, score


def streaming_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g n d"],
    value: Float[Tensor, "b g n e"],
    num_sinks: int,
    window: int,
    *,
    scale: float | None = None,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n n"]]:
    """What a text that streams through a `SinkCache` reads, for all its tokens at once.

        visible(i, j) = j <= i  and  (j < num_sinks  or  i - j < window)
        distance(i, j) = min(i, num_sinks + window - 1) - j  for a sink,  i - j  for the others

    Tokens are turned by their index in the cache. Those of the window stand side by side there, as in the
    text. A sink has moved up behind them: it never is further away than the cache is long.

    Args:
        query, key, value: not turned yet; query head h reads KV head h // (h / g).
        num_sinks: tokens of the beginning that stay; 0 leaves a window.
        window: last tokens that are read, the query's own among them; 1 or more.
        scale: see `attncourse.steps.score`.

    Returns: output and weights.

    Raises:
        ValueError: num_sinks below 0, or window below 1.

    Cost: n n scores, twice: for training and for figures. A `SinkCache` computes n (num_sinks + window).
    Reduces to: causal attention with rotary positions when num_sinks + window >= n.
    Source: xiao2024, section 3.2.
    Chapter: 15_sinks.
    """
    _check(num_sinks, window)
    check_sequences(query, key, value, shared_heads=True)
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    at = torch.arange(query.size(2), device=query.device)
    i, j = at[:, None], at
    in_cache = at.clamp(max=num_sinks + window - 1)
    turned = rotary(key, at)
    near = score(rotary(query, at), turned, scale)
    far = score(rotary(query, in_cache), turned, scale)
    visible = (j <= i) & ((j < num_sinks) | (i - j < window))
    weights = normalize(mask(torch.where(j < num_sinks, far, near), visible))
    return mix(weights, value), weights


class SinkCache(BoundedCache):
    """Keys and values of the first ``num_sinks`` tokens and of the last ``window``, however long the text is.

        kept after token t = {0 .. num_sinks - 1}  and  {t - window + 1 .. t}

    The newest token takes the place of the oldest of the window, so no other is moved. Keys are cached as
    they are, and every step turns all of them by their index in the cache, which changes. That is the simple
    way, and the authors'. Distances within the window do not change: its keys could be turned once, by their
    positions in the text, and only the sinks again.

    Args:
        batch, num_kv_heads, head_dim: as in `attncourse.cache.KVCache`.
        num_sinks: tokens of the beginning that stay; 0 leaves a window.
        window: last tokens that stay, the newest among them; 1 or more. (`RollingKVCache` counts without it.)
        options: value_dim, dtype and device, as in `attncourse.cache.KVCache`.

    Raises:
        ValueError: num_sinks below 0, or window below 1.

    Cost: memory for num_sinks + window tokens; a step turns and reads as many keys.
    Reduces to: `attncourse.cache.KVCache` while num_sinks + window tokens suffice.
    Source: xiao2024, section 3.2.
    Chapter: 15_sinks.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        num_sinks: int,
        window: int,
        head_dim: int,
        **options,
    ):
        _check(num_sinks, window)
        super().__init__(batch, num_kv_heads, num_sinks + window, head_dim, **options)
        self.num_sinks, self.window = num_sinks, window

    def kept(self) -> list[int]:
        """Which tokens of the text are there, from the oldest to the newest."""
        first, after = min(self.num_sinks, self.length), self.length - self.window
        return [*range(first), *range(max(self.num_sinks, after), self.length)]

    def positions(self, n: int) -> Int[Tensor, " n"]:
        """The index in the cache at which each of the next n tokens will ask."""
        return super().positions(n).clamp(max=self.max_length - 1)

    def indices(self) -> Int[Tensor, " m"]:
        """The index in the cache of what lies in each slot: the sinks, then the window from old to new."""
        slots = torch.arange(min(self.length, self.max_length), device=self.key.device)
        evicted = max(self.length - self.max_length, 0)
        in_window = self.num_sinks + (slots - self.num_sinks - evicted) % self.window
        return torch.where(slots < self.num_sinks, slots, in_window)

    def append(
        self, key: Float[Tensor, "b g n d"], value: Float[Tensor, "b g n e"], present=None
    ) -> tuple[Float[Tensor, "b g m d"], Float[Tensor, "b g m e"]]:
        """Write n tokens, in the places of the oldest; returns those kept, as views, in the order of `indices`.

        Raises:
            ValueError: another batch, number of heads or width. The cache is then as before.
        """
        self.begin()
        return self._write(key, value, present)

    def _write(self, key: Tensor, value: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
        """As `append`, as part of a call."""
        self.check(key, value)
        text = super().positions(key.size(2))
        self.length += key.size(2)
        stays = (text < self.num_sinks) | (text >= self.length - self.window)
        in_window = self.num_sinks + (text - self.num_sinks) % self.window
        slots = torch.where(text < self.num_sinks, text, in_window)[stays]
        self.overwrite(text[stays], slots, key[:, :, stays], value[:, :, stays], present)
        # A slice beyond the end is all there is.
        return self.key[:, :, : self.length], self.value[:, :, : self.length]

    def attend(
        self,
        query: Float[Tensor, "b h n d"],
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        rotary: Rotary | None = None,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b h n e"]:
        """What n new tokens read: together as long as they fit, and then one by one, since each evicts another."""
        if present is not None and not present.all():
            raise ValueError(
                "a SinkCache keeps the first tokens of every sequence, and in front of a shorter one they are padding; "
                "got padding in attn_mask. Stream sequences of different lengths one by one"
            )
        check_sequences(query, key, value, shared_heads=True)
        self.begin()
        n = query.size(2)
        fit = min(max(self.max_length - self.length, 0), n)
        sizes = [fit] * (fit > 0) + [1] * (n - fit)
        output = []
        for q, k, v in zip(*(x.split(sizes, dim=2) for x in (query, key, value)), strict=True):
            at = self.positions(q.size(2))
            keys, values = self._write(k, v, None)
            if rotary is not None:
                q, keys = rotary(q, at), rotary(keys, self.indices())
            output.append(cached_attention(q.to(keys.dtype), keys, values))
        return torch.cat(output, dim=2).to(query.dtype)

    def __repr__(self) -> str:
        b, g, _, d = self.key.shape
        return (
            f"SinkCache({min(self.length, self.max_length)} of {self.length} tokens: {self.num_sinks} sinks "
            f"and a window of {self.window}, batch {b}, {g} key/value heads of width {d})"
        )


def _check(num_sinks: int, window: int) -> None:
    if num_sinks < 0 or window < 1:
        raise ValueError(
            f"num_sinks must be 0 or more and window 1 or more, since every token reads itself; got "
            f"{num_sinks} and {window}"
        )
