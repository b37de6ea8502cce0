"""The key-value cache, and the attention that reads it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.interface import check_sequences
from attncourse.steps import add_causal, fold_heads, unfold_heads

Rotary = Callable[[Tensor, Tensor], Tensor]  # turns queries or keys by their positions


class KVCache:
    """Keys and values of the tokens so far, in memory that is allocated once.

    Args:
        batch: sequences that grow side by side.
        num_kv_heads: key/value heads of the layer; 1 for multi-query attention.
        max_length: tokens that fit.
        head_dim: width of a key.
        value_dim: width of a value; ``None`` means head_dim.
        value_heads: heads of the values; ``None`` means num_kv_heads.
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
        value_heads: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        value_dim = head_dim if value_dim is None else value_dim
        value_heads = num_kv_heads if value_heads is None else value_heads
        self.key, self.value = (
            torch.empty(batch, heads, max_length, width, dtype=dtype, device=device)
            for heads, width in ((num_kv_heads, head_dim), (value_heads, value_dim))
        )
        self.length = 0
        self.present: Bool[Tensor, "b max_length"] | None = None  # which tokens are no padding

    @classmethod
    def of(cls, layer: Any, batch: int, *sizes: int, **named: Any) -> "KVCache":
        """An empty cache in the shape, dtype and device of a layer; the sizes are max_length."""
        (heads, width), (value_heads, value_width) = layer.cached()
        weight = next(layer.parameters())
        usual = {"head_dim": width, "value_dim": value_width, "value_heads": value_heads}
        return cls(
            batch, heads, *sizes, **usual | {"dtype": weight.dtype, "device": weight.device} | named
        )

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
        self,
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        present: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b g m d"], Float[Tensor, "b g m e"]]:
        """Write n tokens behind those that are there; returns all m, as views, in the cache's dtype.

        Nothing is copied but the new tokens. Gradients do not flow through a cache. Where ``present`` is ``False``
        a token is padding; ``None``: none is.

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
        self.store(slice(self.length, end), key, value, present)
        self.length = end
        return self.key[:, :, :end], self.value[:, :, :end]

    def store(self, slots: Any, key: Tensor, value: Tensor, present: Tensor | None) -> None:
        """Write tokens where they belong, and which of them are padding once any is."""
        self.key[:, :, slots] = key.detach().to(self.key.dtype)
        self.value[:, :, slots] = value.detach().to(self.value.dtype)
        if present is not None and self.present is None:
            shape = self.key.size(0), self.max_length
            self.present = torch.ones(shape, dtype=torch.bool, device=self.key.device)
        if self.present is not None:
            self.present[:, slots] = True if present is None else present

    def visible(self) -> Bool[Tensor, "b 1 1 m"] | None:
        """A mask of what `append` returned: ``False`` where a token is padding; ``None`` if none ever was."""
        return None if self.present is None else self.present[:, None, None, : self.length]

    def check(self, key: Tensor, value: Tensor) -> None:
        """Refuse keys and values that are not of this cache's batch, heads and widths."""
        wanted = tuple((*x.shape[:2], key.size(2), x.size(3)) for x in (self.key, self.value))
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
        rotary: Rotary | None = None,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b h n e"]:
        """What n new tokens read: themselves and all before. Their keys and values are appended.

        A cache that keeps its tokens in another way reads them in its own way, too, so `decode` asks it.

        Args:
            query, key, value: of the new tokens, not turned yet.
            rotary: turns queries and keys by their positions; keys are cached turned.
            present: ``False`` where a new token is padding; ``None``: none is.
        """
        if rotary is not None:
            # As heads of one tensor, so that the angles are made once.
            both = rotary(torch.cat([query, key], dim=1), self.positions(query.size(2)))
            query, key = both.split([query.size(1), key.size(1)], dim=1)
        keys, values = self.append(key, value, present)
        return cached_attention(query.to(keys.dtype), keys, values, self.visible()).to(query.dtype)

    def crop(self, length: int) -> None:
        """Forget all tokens but the first: those that were drafted, and turned out wrong.

        Raises:
            ValueError: a length that the cache has not, or no longer has.
        """
        if not 0 <= length <= self.length:
            raise ValueError(
                f"length must be 0 to {self.length}, the tokens that are cached; got {length}"
            )
        self.length = length

    def reorder(self, rows: Int[Tensor, " b"]) -> None:
        """Go on with these sequences of the batch, some of them twice or not at all: the beams that are left."""
        self.key, self.value = self.key[rows], self.value[rows]
        if self.present is not None:
            self.present = self.present[rows]

    def __repr__(self) -> str:
        b, g, _, d = self.key.shape
        return f"KVCache({self.length} of {self.max_length} tokens, batch {b}, {g} key/value heads of width {d})"


class BoundedCache(KVCache):
    """A cache in which new tokens take the places of old ones, so that it never grows; its kinds choose the places.

    What a call overwrites is remembered until the next one, so that `crop` can take back that call.
    """

    def __init__(self, *sizes: int, **options: Any):
        super().__init__(*sizes, **options)
        self.begin()

    def begin(self) -> None:
        """A new call: what was there before it is where `crop` can go back to."""
        self.start = self.length
        self.overwritten: list[tuple] = []

    def overwrite(
        self, tokens: Tensor, slots: Tensor, key: Tensor, value: Tensor, present: Tensor | None
    ) -> None:
        """Write these tokens of the text, counted from 0, into these slots."""
        there = None if self.present is None else self.present[:, slots]
        old = self.key[:, :, slots], self.value[:, :, slots], there
        self.overwritten.append((tokens, slots, old))
        self.store(slots, key, value, present)

    def crop(self, length: int) -> None:
        """As `KVCache.crop`, for tokens of the last call only, and as many as are still in the cache."""
        cut = [x for x in self.overwritten if (x[0] >= length).any()]
        kept = sum(int((x[0] < length).sum()) for x in self.overwritten)
        if not self.start <= length <= self.length or (cut and kept < length - self.start):
            raise ValueError(
                f"length must be {self.start} to {self.length}, the tokens of the last call, none of which may have "
                f"taken the place of another; got {length}. Crop before the next call, and draft few tokens"
            )
        for tokens, slots, (key, value, present) in reversed(cut):
            back = tokens >= length
            present = None if present is None else present[:, back]
            self.store(slots[back], key[:, :, back], value[:, :, back], present)
        self.length = length
        self.overwritten = [x for x in self.overwritten if (x[0] < length).any()]

    def reorder(self, rows: Int[Tensor, " b"]) -> None:
        """As `KVCache.reorder`; the call before can no longer be taken back."""
        super().reorder(rows)
        self.begin()


def cached_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    attn_mask: Bool[Tensor, "b 1 1 m"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """The last n of m tokens ask; each reads every token up to itself.

        visible(i, j) = j <= i + m - n          query head h reads KV head h // (h / g)

    The query heads of a group become further rows of one head. So the keys and values are read where
    they lie: repeating them for every query head would copy the whole cache at every step.

    Args:
        query: of the new tokens.
        key, value: of all tokens, the new ones last.
        attn_mask: ``False`` where a key is padding, for all queries alike.
        scale: ``None`` means 1 / sqrt(d).

    Raises:
        ValueError: shapes that do not fit, or fewer keys than queries.

    Cost: 2 n m (d + e) FLOPs per query head; every number of key and value is read once.
    Reduces to: `attncourse.steps.attention` when n = m and g = h, under a causal mask.
    Source: shazeer2019, section 3.1; ainslie2023, section 2.2.
    Chapter: 06_kv_cache.
    """
    check_sequences(query, key, value, shared_heads=True)
    (_, h, n, _), (_, g, m, _) = query.shape, key.shape
    if n > m:
        raise ValueError(
            f"the queries are the last of the tokens whose keys are given; got {n} queries and {m} keys. Append the "
            f"keys of the new tokens first"
        )
    rows = fold_heads(query, g)
    visible = add_causal(None, n, m, key.device, offset=m - n)
    if visible is not None:
        visible = visible.repeat(h // g, 1)
    if attn_mask is not None:
        visible = attn_mask if visible is None else attn_mask & visible
    output = F.scaled_dot_product_attention(rows, key, value, visible, scale=scale)
    return unfold_heads(output, h)
