"""Multi-head latent attention: the cache keeps one short vector a token, and every head reads it in its own way."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.cache import decodes
from attncourse.layers import merge_heads, split_heads
from attncourse.positions import rotary
from attncourse.steps import add_causal, attention, mask, mix, normalize


class LatentAttention(nn.Module):
    """Causal self-attention whose keys and values are computed from a shared latent vector.

        c_j = norm(x_j W^DKV)                        what is cached, together with r_j
        r_j = rotary(x_j W^KR)                       one rotary key for all heads
        key_h = [c W_h^UK, r]      value_h = c W_h^UV      query_h = [x W_h^Q, rotary(x W_h^QR)]

    Rotation depends on the position and would stand between W^Q and W^UK; hence the separate rotary part.

    Args:
        embed_dim: width of the input and of the output.
        num_heads: number of heads; nothing that is cached depends on it.
        head_dim: width of a head's value, and of the part of its query and key without positions.
        latent_dim: width of c.
        rotary_dim: width of the part with positions; even.

    Cost: latent_dim + rotary_dim cached numbers a token, for any number of heads. ``absorbed`` takes
        2 n m (2 latent_dim + rotary_dim) FLOPs per head, plain 2 n m (2 head_dim + rotary_dim).
    Source: deepseek2024, section 2.1; without their compression of the queries, which saves no cache.
    Chapter: 09_latent.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, head_dim: int, latent_dim: int, rotary_dim: int
    ):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.scale = 1 / math.sqrt(head_dim + rotary_dim)
        inner = num_heads * head_dim
        self.q_proj = nn.Linear(embed_dim, inner, bias=False)
        self.q_rotary_proj = nn.Linear(embed_dim, num_heads * rotary_dim, bias=False)
        self.latent_proj = nn.Linear(embed_dim, latent_dim, bias=False)
        self.latent_norm = nn.RMSNorm(latent_dim)
        self.k_rotary_proj = nn.Linear(embed_dim, rotary_dim, bias=False)
        self.k_proj = nn.Linear(latent_dim, inner, bias=False)
        self.v_proj = nn.Linear(latent_dim, inner, bias=False)
        self.out_proj = nn.Linear(inner, embed_dim, bias=False)

    def forward(
        self, x: Float[Tensor, "b n width"], *, absorbed: bool = False, need_weights: bool = False
    ):
        """The output for a whole sequence; `attncourse.cache.decode` continues one behind a cache.

        Args:
            x: all tokens.
            absorbed: attend to the latents themselves, see `absorbed_attention`; the same result.
            need_weights: return (output, weights), weights (b, h, n, n).

        Returns: (b, n, embed_dim), or the pair.
        """
        positions = torch.arange(x.size(1), device=x.device)
        queries, cached = self.queries(x, positions), self.compress(x, positions)
        out, weights = self.attend(queries, cached, absorbed)
        return (out, weights) if need_weights else out

    def attend(
        self, queries: tuple[Tensor, Tensor], cached: tuple[Tensor, Tensor], absorbed: bool = False
    ) -> tuple[Float[Tensor, "b n width"], Float[Tensor, "b h n m"]]:
        """The last n of m tokens ask; each reads every token up to itself.

        Args:
            queries: of n tokens, from `queries`.
            cached: latents and rotary keys of m tokens, from `compress`.
            absorbed: see `absorbed_attention`.

        Returns: output and weights.
        """
        n, m = queries[0].size(2), cached[0].size(2)
        visible = add_causal(None, m, m, cached[0].device)[m - n :]
        attend = self.absorbed_attention if absorbed else self.plain_attention
        out, weights = attend(*queries, *cached, visible)
        return self.out_proj(merge_heads(out)), weights

    def queries(self, x: Tensor, positions: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """The two parts of the queries: (b, h, n, head_dim) and, turned, (b, h, n, rotary_dim)."""
        q = split_heads(self.q_proj(x), self.num_heads)
        return q, rotary(split_heads(self.q_rotary_proj(x), self.num_heads), positions)

    def compress(self, x: Tensor, positions: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """What is cached: latents (b, 1, n, latent_dim) and rotary keys (b, 1, n, rotary_dim)."""
        latent = self.latent_norm(self.latent_proj(x))
        return latent[:, None], rotary(self.k_rotary_proj(x)[:, None], positions)

    def plain_attention(self, q, q_rotary, latent, k_rotary, visible):
        """Keys and values of every head are made from the latents; then it is multi-head attention."""
        k = split_heads(self.k_proj(latent[:, 0]), self.num_heads)
        v = split_heads(self.v_proj(latent[:, 0]), self.num_heads)
        k_rotary = k_rotary.expand(-1, self.num_heads, -1, -1)
        query, key = torch.cat([q, q_rotary], -1), torch.cat([k, k_rotary], -1)
        return attention(query, key, v, attn_mask=visible, scale=self.scale)

    def absorbed_attention(self, q, q_rotary, latent, k_rotary, visible):
        """Keys and values are never made: their matrices move to the query's side and behind the mix.

            q . (c W^UK) = (q W^UK^T) . c            sum_j w_j (c_j W^UV) = (sum_j w_j c_j) W^UV

        What is left is multi-query attention, c being both key and value: all heads are rows of one.
        """
        w_k, w_v = (
            proj.weight.unflatten(0, (self.num_heads, self.head_dim))
            for proj in (self.k_proj, self.v_proj)
        )
        q = torch.einsum("bhnd,hdc->bhnc", q, w_k)
        latent, k_rotary = latent[:, 0], k_rotary[:, 0]
        scores = q.flatten(1, 2) @ latent.mT + q_rotary.flatten(1, 2) @ k_rotary.mT
        scores = scores.unflatten(1, q.shape[1:3]) * self.scale
        weights = normalize(mask(scores, visible))
        mixed = mix(weights.flatten(1, 2), latent).unflatten(1, q.shape[1:3])
        return torch.einsum("bhnc,hdc->bhnd", mixed, w_v), weights


@decodes(LatentAttention)
def _(layer: LatentAttention, x, cache, *, absorbed: bool = False):
    """The cache has one head: latents where keys used to be, rotary keys in place of values."""
    positions = cache.positions(x.size(1))
    cached = cache.append(*layer.compress(x, positions))
    return layer.attend(layer.queries(x, positions), cached, absorbed)[0]
