"""Disentangled attention: what a token says and how far away it stands are scored by terms of their own."""

import math
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.decoding import decode_by_attend, decodes
from attncourse.interface import check_sequences
from attncourse.layers import SelfAttention, split_heads
from attncourse.steps import add_causal, attention, check_mask, mask

Bucket = Callable[[Tensor], Tensor]


def log_bucket(distance: Int[Tensor, "*n"], buckets: int, furthest: int) -> Int[Tensor, "*n"]:
    """Near distances keep a number each, far ones share, before the query as after it.

        bucket(x) = x                                                                     |x| <= e
                  = sign(x) (e + ceil((e - 1) log(|x| / e) / log((furthest - 1) / e)))    |x| > e,   e = buckets / 2

    Args:
        distance: i - j, positive where the key comes before the query.
        buckets: how many there are on each side; half of them hold one distance each.
        furthest: distance furthest - 1 has the last bucket, buckets - 1. Beyond, the numbers go on growing, and
            `relative_index` clamps them.

    Raises:
        ValueError: fewer than 2 buckets, or a ``furthest`` that leaves no distance to share.

    Reduces to: distance itself where |distance| <= buckets / 2.
    Source: the released code of he2021, second version.
    Chapter: 16_disentangled.
    """
    exact = buckets // 2
    if exact < 1 or furthest - 1 <= exact:
        raise ValueError(
            f"buckets must be at least 2, and furthest above buckets / 2 + 1; got buckets={buckets} and "
            f"furthest={furthest}"
        )
    far = distance.abs().clamp(min=exact).double()
    share = torch.log(far / exact) / math.log((furthest - 1) / exact)
    shared = exact + torch.ceil((exact - 1) * share).long()
    return torch.where(distance.abs() <= exact, distance, distance.sign() * shared)


def relative_index(
    n: int, m: int, span: int, bucket: Bucket | None = None, device=None, offset: int = 0
) -> Int[Tensor, "n m"]:
    """Which row of the table of positions belongs to query i and key j.

        index(i, j) = clamp(bucket(i + offset - j) + span, 0, 2 span - 1)

    Args:
        n, m: number of queries and of keys.
        span: half the table's rows. Row ``span`` is distance 0; row 0 is for all keys that come ``span`` places
            or more after the query, the last row for all that come ``span - 1`` or more before it.
        bucket: the number of each distance; ``None`` keeps the distance.
        offset: position of query 0 among the keys.

    Reduces to: i - j + span where |i - j| < span, without an offset.
    Source: he2021, eq. 3.
    Chapter: 16_disentangled.
    """
    distance = torch.arange(n - 1, -m, -1, device=device) + offset  # each that occurs, once
    if bucket is not None:
        distance = bucket(distance)
    rows = (distance + span).clamp(0, 2 * span - 1)
    # Query i reads m neighbouring entries of that list, and query i + 1 starts one earlier. (`unfold` says the same,
    # and cannot be exported.)
    return rows.as_strided((n, m), (1, 1)).flip(0)


def score_terms(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h m d"],
    pos_key: Float[Tensor, "h rows d"] | None = None,
    pos_query: Float[Tensor, "h rows d"] | None = None,
    *,
    bucket: Bucket | None = None,
    p2c: str = "code",
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The three terms whose sum is a score, each (b, h, n, m), before they are scaled.

        c2c(i, j) = query(i) . key(j)
        c2p(i, j) = query(i) . pos_key(index(i, j))
        p2c(i, j) = key(j) . pos_query(index(i, j))

    Args: as in `disentangled_attention`.

    Returns: c2c, c2p, p2c; ``None`` for a term whose table is not given.

    Cost: as `disentangled_attention`.
    Source: he2021, eqs. 2 and 4.
    Chapter: 16_disentangled.
    """
    return query @ key.mT, *_position_terms(query, key, pos_key, pos_query, bucket, p2c)


def disentangled_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h m d"],
    value: Float[Tensor, "b h m e"],
    pos_key: Float[Tensor, "h rows d"] | None = None,
    pos_query: Float[Tensor, "h rows d"] | None = None,
    *,
    content: bool = True,
    bucket: Bucket | None = None,
    p2c: str = "code",
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    need_weights: bool = True,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"] | None]:
    """Attention whose score has a term for two contents, one for a content and a distance, and one for the reverse.

        score(i, j) = scale * (query(i) . key(j)  +  query(i) . pos_key(index(i, j))  +  key(j) . pos_query(index(i, j)))

    Args:
        query, key, value: of the tokens; they know nothing of positions.
        pos_key: a key for every distance, 2 span rows in the order of `relative_index`: the query says which
            distances it wants. ``None`` leaves out c2p, content to position.
        pos_query: a query for every distance: the key says from which ones it wants to be read. ``None``
            leaves out p2c, position to content.
        content: ``False`` leaves out c2c, content to content.
        bucket: numbers for the distances i - j; ``None`` keeps them. See `log_bucket`.
        p2c: ``"code"`` reads pos_query at index(i, j), as released models do; ``"paper"`` at index(j, i), as printed.
        attn_mask, is_causal, dropout_p: as in `attncourse.steps.scaled_dot_product_attention`.
        scale: ``None`` means 1 / sqrt(d * number of terms), so that scores have one size whatever is left out.
        need_weights: ``False`` hands the position terms to torch's fused function as a mask, and returns ``None``.
        offset: position of query 0 among the keys; behind a cache, their number before it.

    Raises:
        ValueError: nothing to score by, another ``p2c``, tables that are not (h, 2 span, d), or shapes that do not fit.

    Cost: 2 d (n + m) 2 span FLOPs a head beside `attncourse.steps.attention`, and two tables of n m numbers, made
        out of two of 2 span n and 2 span m. No (n, m, d) tensor is made. One query alone: 2 d (2 span + m) FLOPs.
    Reduces to: `attncourse.steps.attention` when both tables are ``None``.
    Source: he2021, section 3.1.
    Chapter: 16_disentangled.
    """
    tables = [x for x in (pos_key, pos_query) if x is not None]
    if not (num_terms := bool(content) + len(tables)):
        raise ValueError("content=False needs pos_key or pos_query: something must give a score")
    check_sequences(query, key, value)
    scale = 1 / math.sqrt(query.size(-1) * num_terms) if scale is None else scale
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device, offset)
    found = _position_terms(query, key, pos_key, pos_query, bucket, p2c, offset, scale)
    terms = [x for x in found if x is not None]
    if terms:
        attn_mask = mask(terms[0] + terms[1] if len(terms) == 2 else terms[0], attn_mask)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tables)
    options = {"scale": scale if content else 0.0, "dropout_p": dropout_p}
    output, weights = _attend(query, key, value, attn_mask, need_weights or learns, **options)
    return output, weights if need_weights else None


class DisentangledAttention(SelfAttention):
    """DeBERTa's self-attention: every head projects the tokens, and one table of positions, T, beside them.

        head_h = disentangled_attention(x W_h^Q, x W_h^K, x W_h^V, T W_h^{K,r}, T W_h^{Q,r})

    Args:
        embed_dim, num_heads, bias, dropout: as in `MultiHeadAttention`.
        span: the table has 2 span rows, and distances beyond share its ends.
        terms: which of ``"c2p"`` and ``"p2c"`` are added.
        content: ``False`` leaves out content to content.
        furthest: the rows are logarithmic buckets and reach this far: ``log_bucket(distance, span, furthest)``.
            ``None`` gives each distance a row of its own.
        share_proj: the matrices of keys and queries project the table too, as in DeBERTa's second version.
        p2c: see `disentangled_attention`.
        positions: ``other.positions`` shares that layer's table, as all layers of DeBERTa share one.

    Raises:
        ValueError: another sequence as key, an unknown term, a table of another shape, or what `MultiHeadAttention` refuses.

    Cost: 2 span embed_dim parameters more than `MultiHeadAttention`, once for all layers that share them, and
        embed_dim^2 a term unless the matrices are shared. Every call projects the table, a decoded token's as well.
    Reduces to: `SelfAttention` when ``terms`` is empty.
    Source: he2021, section 3.1.
    Chapter: 16_disentangled.
    """

    one_sequence = "a distance from one sequence to another has no meaning"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        span: int,
        *,
        terms: Collection[str] = ("c2p", "p2c"),
        content: bool = True,
        furthest: int | None = None,
        share_proj: bool = False,
        p2c: str = "code",
        positions: nn.Parameter | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, dropout, bias)
        if not set(terms) <= {"c2p", "p2c"}:
            raise ValueError(f'terms may hold "c2p" and "p2c"; got {terms!r}')
        if positions is not None and positions.shape != (2 * span, embed_dim):
            got = tuple(positions.shape)
            raise ValueError(f"positions must be {(2 * span, embed_dim)}; got {got}")
        self.terms, self.content, self.p2c = tuple(terms), content, p2c
        self.bucket = None
        if furthest is not None:
            self.bucket = partial(log_bucket, buckets=span, furthest=furthest)
        if positions is None:
            positions = nn.Parameter(torch.randn(2 * span, embed_dim))
        self.positions = positions
        own = not share_proj
        self.pos_k_proj = nn.Linear(embed_dim, embed_dim, bias) if own and "c2p" in terms else None
        self.pos_q_proj = nn.Linear(embed_dim, embed_dim, bias) if own and "p2c" in terms else None

    def tables(self) -> tuple[Float[Tensor, "h rows d"] | None, Float[Tensor, "h rows d"] | None]:
        """The table of positions as the keys and as the queries of all heads; ``None`` where a term is off."""

        def of_heads(project: nn.Module) -> Tensor:
            return split_heads(project(self.positions)[None], self.num_heads)[0]

        as_keys = of_heads(self.pos_k_proj or self.k_proj) if "c2p" in self.terms else None
        return as_keys, of_heads(self.pos_q_proj or self.q_proj) if "p2c" in self.terms else None

    def terms_of(self, x: Float[Tensor, "b n width"]) -> tuple[Tensor | None, ...]:
        """The three terms of every score of every head, as `score_terms` gives them."""
        query, key, _ = self.project(x, x, x)
        return score_terms(query, key, *self.tables(), bucket=self.bucket, p2c=self.p2c)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        offset: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        options: dict[str, Any] = {"content": self.content, "bucket": self.bucket, "p2c": self.p2c}
        options |= {"attn_mask": attn_mask, "is_causal": is_causal, "need_weights": need_weights}
        options |= {"dropout_p": self.dropout_p, "offset": offset}
        return disentangled_attention(q, k, v, *self.tables(), **options)


decodes(DisentangledAttention)(decode_by_attend)


def _attend(query, key, value, attn_mask, stored: bool, **options: Any):
    """By the five steps, or by torch's fused function, which would store the weights, too, if the mask learns."""
    if stored:
        return attention(query, key, value, attn_mask=attn_mask, **options)
    if attn_mask is not None:
        check_mask(attn_mask, axes=4)
    return F.scaled_dot_product_attention(query, key, value, attn_mask, **options), None


def _position_terms(
    query, key, pos_key, pos_query, bucket, p2c, offset=0, scale=1.0
) -> tuple[Tensor | None, Tensor | None]:
    """c2p and p2c, or ``None``: every token times the whole table, and then the right row of the products."""
    if p2c not in ("code", "paper"):
        raise ValueError(f'p2c must be "code" or "paper"; got {p2c!r}')
    if pos_key is None and pos_query is None:
        return None, None
    span = _span(query, pos_key, pos_query)
    n, m = query.size(2), key.size(2)
    shape = (*query.shape[:3], m)
    index = relative_index(n, m, span, bucket, query.device, offset)
    query = query * scale  # a factor on the small tensors is the same as one on the large tables
    c2p = None if pos_key is None else (query @ pos_key.mT).gather(-1, index.expand(shape))
    if pos_query is None:
        return c2p, None
    pos_query = pos_query * scale
    if p2c == "paper":
        index = relative_index(m, n, span, bucket, query.device, -offset).mT
    if n == 1:  # each key needs one row of the table: products with all are 2 span times as many
        rows = pos_query.index_select(1, index[0])
        return c2p, torch.einsum("bhmd,hmd->bhm", key, rows)[:, :, None]
    return c2p, (pos_query @ key.mT).gather(-2, index.expand(shape))


def _span(query: Tensor, *tables: Tensor | None) -> int:
    h, d = query.size(1), query.size(-1)
    shapes = [tuple(table.shape) for table in tables if table is not None]
    rows = shapes[0][-2] if len(shapes[0]) == 3 else 0
    if rows < 2 or rows % 2 or any(shape != (h, rows, d) for shape in shapes):
        got = " and ".join(map(str, shapes))
        raise ValueError(f"tables of positions must be ({h}, 2 span, {d}) here; got {got}")
    return rows // 2
