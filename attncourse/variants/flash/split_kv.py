"""Decoding over a long cache that is cut in pieces: each is attended by itself, and the results are merged.

A step of decoding asks one question of many keys. FlashAttention hands out work by blocks of queries, and
here there is only one; cut by keys there is work for many. The same merge joins pieces of a cache that lie
on different devices.
"""

from functools import reduce

from jaxtyping import Float
from torch import Tensor

from attncourse.interface import check_sequences, whole
from attncourse.variants.flash import flash_attention
from attncourse.variants.flash.online import merge
from attncourse.variants.flash.tiled import blocks


def split_kv_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    pieces: int,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """Exact causal attention of the last n positions over a cache of m, piece by piece.

        output = merge over pieces p of attention(query, key_p, value_p)

    Args:
        query: the queries of positions m - n .. m - 1; one, or a few that were guessed ahead.
        key, value: the cache, these positions included. Query head h reads KV head h // (h / g).
        pieces: how many parts the cache is cut in, as equal as they can be; more than m leaves some out.
        scale: factor on the dot products; ``None`` means 1 / sqrt(head_dim).

    Raises:
        ValueError: fewer than one piece, more queries than keys, or shapes that do not fit. TypeError: a number of
            pieces that is not whole.

    Cost: 2 n m (d + e) FLOPs per head, as without pieces, and (e + 1) numbers a piece and row to merge. No
        piece waits for another; here they run one after the other, on a GPU they would run side by side.
    Reduces to: `attncourse.variants.flash.flash_attention` with one piece and offset m - n.
    Source: flashdecoding2023.
    Chapter: 12_ring.
    """
    check_sequences(query, key, value, shared_heads=True)
    n, m, pieces = query.size(-2), key.size(-2), whole("pieces", pieces)
    if pieces < 1:
        raise ValueError(f"pieces must be 1 or more; got {pieces}. 1 leaves the cache whole")
    if n > m:
        raise ValueError(
            f"the cache holds the queries' own keys, so there are at least as many keys; got {n} queries "
            f"and {m} keys. Append the new keys before you attend"
        )
    parts = []
    for piece in blocks(m, -(-m // pieces)):
        # Within a piece the query sees as many keys as lie between the piece's start and its own place.
        part, aux = flash_attention(
            query, key[..., piece, :], value[..., piece, :], None, True, scale, True,
            offset=m - n - piece.start, return_aux=True,
        )  # fmt: skip
        parts.append((part, aux.lse))
    output, _ = reduce(lambda a, b: merge(*a, *b), parts)
    return output.to(query.dtype)
