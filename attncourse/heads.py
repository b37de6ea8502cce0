"""The layer around attention: project, split into heads, attend, merge, project."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.steps import add_causal, attention, check_mask


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
    _check_divisible("width", x.size(-1), num_heads)
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

    Raises:
        ValueError: embed_dim is not a multiple of num_heads, or an unknown init.

    Cost: 4 embed_dim^2 parameters for every number of heads; FLOPs in `attncourse.cost`.
    Reduces to: `attncourse.steps.attention` when num_heads = 1 and the projections are identities.
    Source: vaswani2017, section 3.2.2; glorot2010, eq. 16, for Xavier.
    Chapter: 03_multi_head.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        init: str = "default",
    ):
        super().__init__()
        _check_divisible("embed_dim", embed_dim, num_heads)
        if init not in ("default", "xavier"):
            raise ValueError(f'init must be "default" or "xavier"; got {init!r}')
        self.num_heads = num_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_proj = nn.Linear(kdim or embed_dim, embed_dim, bias)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, bias)
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

        Returns: (b, n, embed_dim), or the pair.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check_inputs(query, key, value)
        q = split_heads(self.q_proj(query), self.num_heads)
        k = split_heads(self.k_proj(key), self.num_heads)
        v = split_heads(self.v_proj(value), self.num_heads)
        out, weights = self._attend(q, k, v, attn_mask, is_causal, need_weights)
        out = self.out_proj(merge_heads(out))
        return (out, weights) if need_weights else out

    def _attend(self, q, k, v, attn_mask, is_causal, need_weights):
        """The five steps, or torch's fused version of them when nobody asks for the weights."""
        dropout_p = self.dropout if self.training else 0.0
        if attn_mask is not None:
            check_mask(attn_mask, axes=4)
        if is_causal and (need_weights or attn_mask is not None):
            attn_mask, is_causal = add_causal(attn_mask, q.size(2), k.size(2), q.device), False
        if need_weights:
            return attention(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p)
        return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal), None

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, x, proj in zip(
            ("query", "key", "value"),
            (query, key, value),
            (self.q_proj, self.k_proj, self.v_proj),
            strict=True,
        ):
            if x.dim() != 3 or x.size(-1) != proj.in_features:
                raise ValueError(
                    f"{name} must be (batch, seq, {proj.in_features}); got shape {tuple(x.shape)}. "
                    f"A single sequence needs a batch axis: x[None]"
                )

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, dropout={self.dropout}"


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values all come from one sequence. Chapter: 03_multi_head."""

    def forward(self, x: Float[Tensor, "b n width"], **options):
        """`MultiHeadAttention.forward` with x as query, key and value."""
        return super().forward(x, **options)


class CausalSelfAttention(SelfAttention):
    """Self-attention in which no position reads a later one. Chapter: 03_multi_head."""

    def forward(self, x: Float[Tensor, "b n width"], **options):
        """`MultiHeadAttention.forward` with x three times and ``is_causal=True``."""
        return super().forward(x, is_causal=True, **options)


class CrossAttention(MultiHeadAttention):
    """One sequence asks, another answers. Chapter: 03_multi_head."""

    def forward(self, x: Float[Tensor, "b n width"], memory: Float[Tensor, "b m kdim"], **options):
        """`MultiHeadAttention.forward` with x as query and memory as key and value."""
        return super().forward(x, memory, **options)


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _check_divisible(what: str, width: int, num_heads: int) -> None:
    if num_heads < 1 or width % num_heads:
        divisors = [str(h) for h in range(1, width + 1) if width % h == 0]
        raise ValueError(
            f"{what}={width} is not a multiple of num_heads={num_heads}; "
            f"use {' or '.join([', '.join(divisors[:-1]), divisors[-1]][len(divisors) < 2 :])}"
        )
