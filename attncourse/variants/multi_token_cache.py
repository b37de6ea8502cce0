"""Decoding of multi-token attention: a new query looks at the queries before it, so the last ones are kept as well."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.cache import KVCache


class NeighbourCache(KVCache):
    """Keys and values of all tokens, and the last queries: the kernels look back at them, too.

    Args:
        sizes, options: as in `attncourse.cache.KVCache`.
        num_heads: of the queries.
        rows: so many queries before a new one take part in what it reads.

    `crop` can go back as far as the queries before it are still there: to any token of the last call.

    Cost: batch * num_heads * rows * head_dim numbers more than `KVCache`, and the queries of the last call; a
        further token costs no more than it does there.
    Chapter: 17_multi_token.
    """

    def __init__(self, *sizes: int, num_heads: int, rows: int, **options):
        super().__init__(*sizes, **options)
        self.rows = rows
        self.query = self.key.new_empty(self.key.size(0), num_heads, 0, self.key.size(3))

    @classmethod
    def of(cls, layer: Any, batch: int, *sizes: int, **named) -> "NeighbourCache":
        """An empty cache for this layer; the sizes are max_length."""
        usual = {"num_heads": layer.num_heads, "rows": layer.rows_before()}
        cache: Any = super().of(layer, batch, *sizes, **usual | named)
        return cache

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values, filled or not, and of the queries that are kept."""
        return super().nbytes + self.query.nbytes

    def append_query(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h rows d"]:
        """Keep the queries of n tokens, whose keys were just appended; returns them behind those that they look at."""
        before = self.query[:, :, max(0, self.query.size(2) - self.rows) :]
        self.query = torch.cat([before, query.detach().to(before.dtype)], dim=2)
        return self.query

    def crop(self, length: int) -> None:
        """As `KVCache.crop`, for tokens of the last call.

        Raises:
            ValueError: a length that the cache has not, or whose queries it no longer has.
        """
        kept = max(0, self.query.size(2) - (self.length - length))
        if 0 <= length <= self.length and kept < min(self.rows, length):
            first = self.length - self.query.size(2) + self.rows
            raise ValueError(
                f"length must be {first} or more, or 0: only the queries of the last call and {self.rows} before it "
                f"are kept; got {length}. Crop before the next call, and draft few tokens"
            )
        super().crop(length)
        self.query = self.query[:, :, :kept]

    def reorder(self, rows: Int[Tensor, " b"]) -> None:
        """As `KVCache.reorder`."""
        super().reorder(rows)
        self.query = self.query[rows]


def decode_with_neighbours(
    layer: Any,
    x: Float[Tensor, "b n width"],
    cache: NeighbourCache,
    *,
    use_rotary: bool = False,
    present: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n width"]:
    """The new queries ask once more together with those before them, whose outputs are known and left out."""
    if not isinstance(cache, NeighbourCache):
        raise TypeError(
            f"{type(layer).__name__} decodes with a NeighbourCache, which keeps the last queries as well; got "
            f"{type(cache).__name__}. Make it with attncourse.decoding.new_cache"
        )
    n = x.size(1)
    query, key, value = layer.project(x, x, x, cache.positions(n) if use_rotary else None)
    keys, values = (kept.to(query.dtype) for kept in cache.append(key, value, present))
    queries = cache.append_query(query).to(query.dtype)
    offset = keys.size(2) - queries.size(2)
    heads, _ = layer.attend(queries, keys, values, cache.visible(), True, offset=offset)
    return layer.join(heads[:, :, -n:], x)
