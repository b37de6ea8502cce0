"""Multi-head latent attention: the cache keeps one short vector a token, and every head reads it in its own way."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.cache import KVCache, cached_attention
from attncourse.decoding import decodes
from attncourse.interface import check_inputs, refuse
from attncourse.layers import merge_heads, split_heads
from attncourse.positions import rotary
from attncourse.steps import add_causal, attention, check_mask, mask, mix, normalize

ONE_SEQUENCE = "its keys are turned by positions that they share with the queries"


class LatentAttention(nn.Module):
    """Self-attention whose keys and values are computed from a shared latent vector; causal unless told otherwise.

        c_j = norm(x_j W^DKV)                        what is cached, together with r_j
        r_j = rotary(x_j W^KR)                       one rotary key for all heads
        key_h = [c W_h^UK, r]      value_h = c W_h^UV      query_h = [y W_h^Q, rotary(y W_h^QR)]
        y = x, or with query_latent_dim  y = norm(x W^DQ)

    Rotation depends on the position and would stand between W^Q and W^UK; hence the separate rotary part.

    Args:
        embed_dim: width of the input and of the output.
        num_heads: number of heads; nothing that is cached depends on it.
        head_dim: width of a head's value, and of the part of its query and key without positions.
        latent_dim: width of c.
        rotary_dim: width of the part with positions; even.
        query_latent_dim: width of y; ``None`` leaves the queries as they are. It saves parameters, and no cache.
        dropout: probability that a weight is zeroed while training.

    ``layer.rotary`` can be replaced, as in `attncourse.layers.MultiHeadAttention`.

    Cost: latent_dim + rotary_dim cached numbers a token, for any number of heads. ``absorbed`` takes
        2 n m (2 latent_dim + rotary_dim) FLOPs per head, plain 2 n m (2 head_dim + rotary_dim).
    Source: deepseek2024, section 2.1.
    Chapter: 09_latent.
    """

    rotary = staticmethod(rotary)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        head_dim: int,
        latent_dim: int,
        rotary_dim: int,
        query_latent_dim: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, head_dim
        self.latent_dim, self.rotary_dim, self.dropout = latent_dim, rotary_dim, dropout
        self.scale = 1 / math.sqrt(head_dim + rotary_dim)
        inner = num_heads * head_dim
        asking = embed_dim if query_latent_dim is None else query_latent_dim
        self.query_latent_dim = query_latent_dim
        if query_latent_dim is not None:
            self.q_latent_proj = nn.Linear(embed_dim, query_latent_dim, bias=False)
            self.q_latent_norm = nn.RMSNorm(query_latent_dim)
        self.q_proj = nn.Linear(asking, inner, bias=False)
        self.q_rotary_proj = nn.Linear(asking, num_heads * rotary_dim, bias=False)
        self.latent_proj = nn.Linear(embed_dim, latent_dim, bias=False)
        self.latent_norm = nn.RMSNorm(latent_dim)
        self.k_rotary_proj = nn.Linear(embed_dim, rotary_dim, bias=False)
        self.k_proj = nn.Linear(latent_dim, inner, bias=False)
        self.v_proj = nn.Linear(latent_dim, inner, bias=False)
        self.out_proj = nn.Linear(inner, embed_dim, bias=False)

    def forward(
        self,
        query: Float[Tensor, "b n width"],
        key=None,
        value=None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = True,
        positions: Int[Tensor, "*b n"] | None = None,
        need_weights: bool = False,
        absorbed: bool = False,
    ):
        """The output for a whole sequence; `attncourse.decoding.decode` continues one behind a cache.

        Args:
            query: all tokens; key and value may name them again.
            attn_mask: as in `attncourse.steps.mask`.
            is_causal: no token reads a later one.
            positions: of the tokens; ``None`` means 0, 1, 2 and so on.
            need_weights: return (output, weights), weights (b, h, n, n).
            absorbed: attend to the latents themselves, see `absorbed_attention`; the same result.

        Returns: (b, n, embed_dim), or the pair.
        """
        others = {"key": key, "value": value}
        refuse(self, ONE_SEQUENCE, **{k: x for k, x in others.items() if x is not query})
        check_inputs(query, query, query, *[self.embed_dim] * 3)
        if positions is None:
            positions = torch.arange(query.size(1), device=query.device)
        queries, cached = self.queries(query, positions), self.compress(query, positions)
        out, weights = self.attend(queries, cached, absorbed, attn_mask, is_causal)
        return (out, weights) if need_weights else out

    def attend(
        self,
        queries: tuple[Tensor, Tensor],
        cached: tuple[Tensor, Tensor],
        absorbed: bool = False,
        attn_mask: Tensor | None = None,
        is_causal: bool = True,
    ) -> tuple[Float[Tensor, "b n width"], Float[Tensor, "b h n m"]]:
        """The last n of m tokens ask; if causal, each reads every token up to itself.

        Args:
            queries: of n tokens, from `queries`.
            cached: latents and rotary keys of m tokens, from `compress`.
            absorbed: see `absorbed_attention`.
            attn_mask: as in `attncourse.steps.mask`, (n, m) or (b, h, n, m).

        Returns: output and weights.
        """
        n, m = queries[0].size(2), cached[0].size(2)
        if attn_mask is not None:
            check_mask(attn_mask, axes=4)
        if is_causal:
            attn_mask = add_causal(attn_mask, n, m, cached[0].device, offset=m - n)
        attend = self.absorbed_attention if absorbed else self.plain_attention
        out, weights = attend(*queries, *cached, attn_mask)
        return self.out_proj(merge_heads(out)), weights

    def queries(self, x: Tensor, positions: Int[Tensor, "*b n"]) -> tuple[Tensor, Tensor]:
        """The two parts of the queries: (b, h, n, head_dim) and, turned, (b, h, n, rotary_dim)."""
        y = x
        if self.query_latent_dim is not None:
            y = self.q_latent_norm(self.q_latent_proj(x).to(x.dtype))
        q = split_heads(self.q_proj(y), self.num_heads)
        return q, self.rotary(split_heads(self.q_rotary_proj(y), self.num_heads), positions)

    def compress(self, x: Tensor, positions: Int[Tensor, "*b n"]) -> tuple[Tensor, Tensor]:
        """What is cached: latents (b, 1, n, latent_dim) and rotary keys (b, 1, n, rotary_dim)."""
        latent = self.latent_norm(
            self.latent_proj(x).to(x.dtype)
        )  # under autocast: normed as it came
        return latent[:, None], self.rotary(self.k_rotary_proj(x)[:, None], positions)

    def cached(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """One head: latents where keys used to be, rotary keys in place of values."""
        return (1, self.latent_dim), (1, self.rotary_dim)

    def plain_attention(self, q, q_rotary, latent, k_rotary, visible):
        """Keys and values of every head are made from the latents; then it is multi-head attention."""
        k = split_heads(self.k_proj(latent[:, 0]), self.num_heads)
        v = split_heads(self.v_proj(latent[:, 0]), self.num_heads)
        k_rotary = k_rotary.expand(-1, self.num_heads, -1, -1)
        query, key = torch.cat([q, q_rotary], -1), torch.cat([k, k_rotary], -1)
        options = {"scale": self.scale, "dropout_p": self.dropout if self.training else 0.0}
        return attention(query, key, v, attn_mask=visible, **options)

    def absorbed_attention(self, q, q_rotary, latent, k_rotary, visible):
        """Keys and values are never made: their matrices move to the query's side and behind the mix.

            q . (c W^UK) = (q W^UK^T) . c            sum_j w_j (c_j W^UV) = (sum_j w_j c_j) W^UV

        What is left is multi-query attention, c being both key and value: all heads are rows of one.
        """
        q = self.towards_latents(q)
        latent, k_rotary = latent[:, 0], k_rotary[:, 0]
        scores = q.flatten(1, 2) @ latent.mT + q_rotary.flatten(1, 2) @ k_rotary.mT
        scores = scores.unflatten(1, q.shape[1:3]) * self.scale
        weights = F.dropout(normalize(mask(scores, visible)), self.dropout, self.training)
        mixed = mix(weights.flatten(1, 2), latent).unflatten(1, q.shape[1:3])
        return self.away_from_latents(mixed), weights

    def absorbed_in_one_pass(self, q, q_rotary, both, visible):
        """The same, of latents and rotary keys that lie side by side: key and value are one tensor, and read once."""
        q = torch.cat([self.towards_latents(q), q_rotary], dim=-1)
        mixed = cached_attention(q, both, both, visible, scale=self.scale)[..., : self.latent_dim]
        return self.away_from_latents(mixed)

    def towards_latents(self, q: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n c"]:
        """Queries of each head times its W^UK^T: what they ask of a latent."""
        return torch.einsum("bhnd,hdc->bhnc", q, self._matrices(self.k_proj, q))

    def away_from_latents(self, mixed: Float[Tensor, "b h n c"]) -> Float[Tensor, "b h n d"]:
        """Mixed latents of each head times its W^UV: the mixed values."""
        return torch.einsum("bhnc,hdc->bhnd", mixed, self._matrices(self.v_proj, mixed))

    def _matrices(self, proj: Any, like: Tensor) -> Float[Tensor, "h d c"]:
        """That of each head; of a projection that is wrapped or quantized, what it does to unit vectors."""
        if type(proj).forward is nn.Linear.forward:
            return proj.weight.unflatten(0, (self.num_heads, -1))
        unit = torch.eye(self.latent_dim, dtype=like.dtype, device=like.device)
        return proj(unit).mT.unflatten(0, (self.num_heads, -1))


class LatentCache(KVCache):
    """Latents where keys used to be, rotary keys in place of values: both in one tensor, of which they are views.

    Cost: latent_dim + rotary_dim numbers a token.
    Source: deepseek2024, section 2.1.
    Chapter: 09_latent.
    """

    def __init__(self, *sizes: int, **options: Any):
        super().__init__(*sizes, **options)
        self.side_by_side()

    def side_by_side(self) -> None:
        """Move what is cached into one tensor."""
        widths = self.key.size(-1), self.value.size(-1)
        self.both = torch.cat([self.key, self.value], dim=-1)
        self.key, self.value = self.both.split(widths, dim=-1)

    def reorder(self, rows: Int[Tensor, " b"]) -> None:
        """As `KVCache.reorder`."""
        super().reorder(rows)
        self.side_by_side()


@decodes(LatentAttention, LatentCache.of)
def _(
    layer: LatentAttention,
    x,
    cache,
    *,
    absorbed: bool = False,
    use_rotary: bool = True,
    present: Bool[Tensor, "b n"] | None = None,
):
    """Positions are part of the layer: whatever ``use_rotary`` says, it turns."""
    positions = cache.positions(x.size(1))
    queries = layer.queries(x, positions)
    cached = cache.append(*layer.compress(x, positions), present)
    if absorbed and isinstance(cache, LatentCache):
        both = cache.both[:, :, : cache.length].to(x.dtype)
        heads = layer.absorbed_in_one_pass(*queries, both, cache.visible())
        return layer.out_proj(merge_heads(heads))
    latent, k_rotary = (kept.to(x.dtype) for kept in cached)
    return layer.attend(queries, (latent, k_rotary), absorbed, cache.visible())[0]
