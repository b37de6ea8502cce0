"""The layer around attention: project, split into heads, attend, merge, project."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.interface import check_divisible, check_inputs, refuse
from attncourse.positions import rotary
from attncourse.steps import add_causal, attention, check_mask, repeat_heads


def split_heads(x: Float[Tensor, "b n width"], num_heads: int) -> Float[Tensor, "b h n d"]:
    """Cut the last axis into heads and move the heads before the sequence.

        out(b, h, n, d) = x(b, n, h * head_dim + d)

    Args:
        x: width is a multiple of num_heads.
        num_heads: 1 adds an axis and changes nothing else.

    Raises:
        ValueError: width is not a multiple of num_heads.

    Cost: none, a view.
    Reduces to: ``x[:, None]`` when num_heads = 1.
    Chapter: 03_multi_head.
    """
    check_divisible("width", x.size(-1), num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "b h n d"]) -> Float[Tensor, "b n width"]:
    """Undo `split_heads`. The transpose comes first: without it, positions mix.

        out(b, n, h * head_dim + d) = x(b, h, n, d)

    Cost: one copy of x.
    Chapter: 03_multi_head.
    """
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of the embedding.

        head_h = attention(query W_h^Q, key W_h^K, value W_h^V)
        output = concat(head_0, ..., head_{H-1}) W^O

    Args:
        embed_dim: width of the queries and of the output.
        num_heads: divides embed_dim; each head works in head_dim = embed_dim / num_heads.
        dropout: probability that a weight is zeroed while training.
        bias: add a bias in all four projections.
        kdim, vdim: width of key and value inputs; ``None`` means embed_dim.
        init: ``"default"`` leaves ``nn.Linear``'s start values, ``"xavier"`` draws all four
            matrices Xavier-uniform and sets the biases to 0.
        num_kv_heads: heads of keys and values; a divisor of num_heads, and query head h reads KV head
            h // (num_heads / num_kv_heads). ``None`` means num_heads.

    A variant that reads in another way overrides `attend`; `attncourse.decoding.decode` then needs a decoder for it.
    ``layer.rotary`` turns queries and keys where positions are given: replace it for another base, or for
    longer texts, ``partial(rotary, base=500_000.0)``.

    Raises:
        ValueError: embed_dim is not a multiple of num_heads, or num_heads of num_kv_heads, or an
            unknown init.

    Cost: 2 embed_dim^2 (1 + num_kv_heads / num_heads) parameters, without biases; FLOPs in
        `attncourse.cost`.
    Reduces to: `attncourse.steps.attention` when num_heads = 1 and the projections are identities.
    Source: vaswani2017, section 3.2.2; glorot2010, eq. 16, for Xavier.
    Chapter: 03_multi_head.
    """

    rotary = staticmethod(rotary)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        init: str = "default",
        num_kv_heads: int | None = None,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_divisible("embed_dim", embed_dim, num_heads)
        check_divisible("num_heads", num_heads, num_kv_heads, "num_kv_heads")
        if init not in ("default", "xavier"):
            raise ValueError(f'init must be "default" or "xavier"; got {init!r}')
        self.embed_dim, self.kdim, self.vdim = embed_dim, kdim or embed_dim, vdim or embed_dim
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim, self.dropout = embed_dim // num_heads, dropout
        kv_width = self.head_dim * num_kv_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_proj = nn.Linear(self.kdim, kv_width, bias)
        self.v_proj = nn.Linear(self.vdim, kv_width, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)
        if init == "xavier":
            self.apply(_xavier)

    def forward(
        self,
        query: Float[Tensor, "b n width"],
        key: Float[Tensor, "b m kdim"] | None = None,
        value: Float[Tensor, "b m vdim"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        positions: Int[Tensor, "*b n"] | None = None,
    ):
        """Self-attention with one input, cross-attention with two or three.

        Args:
            query: the sequence that asks.
            key: the sequence that answers; ``None`` means ``query``.
            value: what it answers; ``None`` means ``key``.
            attn_mask: as in `attncourse.steps.mask`: (n, m) or broadcastable to (b, h, n, m).
            is_causal: query i reads keys 0..i; with ``attn_mask``, both apply.
            need_weights: return (output, weights), weights (b, h, n, m) being the very ones that
                made the output, dropout included. Slower: the weights must be stored.
            positions: of the tokens, (n) or (b, n); queries and keys are turned by them
                (`attncourse.positions.rotary`). ``None``: the layer does not know the order of its tokens.

        Returns: (b, n, embed_dim), or the pair.
        """
        key = query if key is None else key
        value = key if value is None else value
        check_inputs(query, key, value, self.embed_dim, self.kdim, self.vdim)
        if positions is not None and query.size(1) != key.size(1):
            raise ValueError(
                f"positions turn queries and keys of one sequence; got {query.size(1)} queries and "
                f"{key.size(1)} keys. Behind a cache use attncourse.decoding.decode"
            )
        q, k, v = self.project(query, key, value, positions)
        heads, weights = self.attend(q, k, v, attn_mask, is_causal, need_weights)
        out = self.join(heads, query)
        return (out, weights) if need_weights else out

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None = None
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b g m d"], Float[Tensor, "b g m d"]]:
        """Queries, keys and values of all heads, queries and keys turned if there are positions."""
        q = split_heads(self.q_proj(query), self.num_heads)
        k = split_heads(self.k_proj(key), self.num_kv_heads)
        v = split_heads(self.v_proj(value), self.num_kv_heads)
        if positions is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return q, k, v

    def attend(
        self,
        q: Float[Tensor, "b h n d"],
        k: Float[Tensor, "b g m d"],
        v: Float[Tensor, "b g m d"],
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        offset: int = 0,
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h n m"] | None]:
        """The five steps, or torch's fused version of them, with ``None``, when nobody asks for the weights.

        ``offset`` is the position of query 0 among the keys, for ``is_causal``: 0, or m - n behind a cache.
        """
        if attn_mask is not None:
            check_mask(attn_mask, axes=4)
        if is_causal and (need_weights or offset or attn_mask is not None):
            n, m = q.size(2), k.size(2)
            attn_mask, is_causal = add_causal(attn_mask, n, m, q.device, offset), False
        if need_weights:
            k, v = (repeat_heads(x, self.num_heads) for x in (k, v))
            return attention(q, k, v, attn_mask=attn_mask, dropout_p=self.dropout_p)
        shared = self.num_kv_heads < self.num_heads
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask, self.dropout_p, is_causal, enable_gqa=shared
        )
        return out, None

    @property
    def dropout_p(self) -> float:
        """How probable it is that a weight is dropped; 0 unless the layer is being trained."""
        return self.dropout if self.training else 0.0

    def join(
        self, heads: Float[Tensor, "b h n d"], query: Float[Tensor, "b n width"]
    ) -> Float[Tensor, "b n width"]:
        """What the heads found, side by side and through the last matrix. (Some layers look at the query once more.)"""
        return self.out_proj(merge_heads(heads))

    def cached(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """What a cache keeps of each token: heads of keys and their width, heads of values and theirs."""
        shape = self.num_kv_heads, self.head_dim
        return shape, shape

    def extra_repr(self) -> str:
        return (
            f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, dropout={self.dropout}"
        )


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values all come from one sequence. Chapter: 03_multi_head."""

    one_sequence = "queries, keys and values come from one sequence"  # why there is no other

    def forward(self, query: Float[Tensor, "b n width"], key=None, value=None, **options):
        """`MultiHeadAttention.forward` with one sequence; key and value may name it again."""
        others = {"key": key, "value": value}
        refuse(self, self.one_sequence, **{k: x for k, x in others.items() if x is not query})
        return super().forward(query, **options)


class CausalSelfAttention(SelfAttention):
    """Self-attention in which no position reads a later one. Chapter: 03_multi_head."""

    def forward(
        self, query: Float[Tensor, "b n width"], key=None, value=None, *, is_causal=True, **options
    ):
        """`MultiHeadAttention.forward` with one sequence and ``is_causal=True``."""
        refuse(self, "it is always causal", **{"is_causal=False": not is_causal})
        return super().forward(query, key, value, is_causal=True, **options)


class CrossAttention(MultiHeadAttention):
    """One sequence asks, another answers. Chapter: 03_multi_head."""

    def forward(
        self,
        query: Float[Tensor, "b n width"],
        key: Float[Tensor, "b m kdim"],
        value=None,
        **options,
    ):
        """`MultiHeadAttention.forward` with a memory as key and value."""
        return super().forward(query, key, value, **options)


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
