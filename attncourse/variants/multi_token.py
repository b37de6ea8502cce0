"""Multi-token attention: the scores of neighbouring queries and keys decide together who is read."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.layers import SelfAttention
from attncourse.steps import add_causal, check_mask, mask, normalize, repeat_heads, score
from attncourse.steps import mix as mix_values
from attncourse.variants.differential import lambda_init
from attncourse.variants.talking_heads import mix_heads


def convolve(
    table: Float[Tensor, "b h n m"], kernel: Float[Tensor, "h c_q c_k"]
) -> Float[Tensor, "b h n m"]:
    """Every number of the table, replaced by a weighted sum of what stands around it.

        out(i, j) = sum_a sum_c kernel(a, c) table(i - (c_q - 1) + a, j - c_k // 2 + c)

    In words: row i looks at itself and the c_q - 1 rows above it, and to both sides alike; outside of the
    table stand zeros. The kernel is not flipped.

    Args:
        table: scores or weights. No minus infinity.
        kernel: one a head. Its last row meets row i, its middle column meets column j.

    Raises:
        ValueError: not one kernel for each head, or an even c_k, which has no middle.

    Cost: 2 c_q c_k n m FLOPs per head, and three copies of the table, one with c_q - 1 rows more.
    Reduces to: `table` when the kernel is 1 in the middle of its last row, and 0 elsewhere.
    Source: golovneva2025, section 3.
    Chapter: 17_multi_token.
    """
    if kernel.dim() != 3 or kernel.size(0) != table.size(1):
        raise ValueError(
            f"kernel must be ({table.size(1)} heads, queries, keys); got shape {tuple(kernel.shape)}. For one "
            f"that all heads share, pass kernel.expand({table.size(1)}, -1, -1)"
        )
    heads, rows, columns = kernel.shape
    _check_width(columns)
    # With the heads in the last axis of memory, the CPU's convolution is up to four times as fast.
    table = table.to(memory_format=torch.channels_last)
    # conv2d pads below as well: what it finds there are rows that the table does not have.
    padding = (rows - 1, columns // 2)
    out = F.conv2d(table, kernel[:, None], padding=padding, groups=heads)[:, :, : table.size(2)]
    return out.contiguous()


def multi_token_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    kernel: Float[Tensor, "h c_q c_k"],
    *,
    kernel_after: Float[Tensor, "h a_q a_k"] | None = None,
    mix: Float[Tensor, "h h"] | None = None,
    mix_after: Float[Tensor, "h h"] | None = None,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """Attention whose scores are convolved with their neighbours before the softmax.

        scores  = convolve(query key^T * scale, the hidden ones set to 0; kernel)
        weights = softmax(scores, the hidden ones set to minus infinity)

    What is hidden must be set to 0 *before* the convolution: the kernel reads keys to the right of j, and
    with j = i these are the future.

    Args:
        query, key, value: query head h reads KV head h // (h / g).
        kernel: see `convolve`.
        kernel_after: convolves the weights as well; what is hidden is set to 0 again.
        mix, mix_after: how heads are mixed behind the first and behind the second convolution, see
            `attncourse.variants.talking_heads.mix_heads`.
        is_causal: query i reads keys 0..i; with ``attn_mask``, both apply.
        attn_mask: bool, ``True`` = may attend, or float, added behind the convolution; -inf hides.
        scale: factor on the dot product; ``None`` means 1 / sqrt(head_dim).

    Returns: output, and the weights that made it. With kernel_after or mix_after their rows do not sum to 1.

    Raises:
        ValueError: a kernel that `convolve` refuses. TypeError: an integer mask.

    Cost: `convolve` on top of `attncourse.steps.attention`; torch has no fused version, so the n m weights are stored.
    Reduces to: causal `attncourse.steps.attention` when the kernel is the identity's.
    Source: golovneva2025, section 3.
    Chapter: 17_multi_token.
    """
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    if attn_mask is not None:
        check_mask(attn_mask, axes=4)
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device)
    hidden = _hidden(attn_mask)
    scores = convolve(_set_to_0(score(query, key, scale), hidden), kernel)
    if mix is not None:
        scores = mix_heads(scores, mix)
    weights = normalize(mask(scores, attn_mask))
    if kernel_after is not None:
        weights = _set_to_0(convolve(weights, kernel_after), hidden)
    if mix_after is not None:
        weights = mix_heads(weights, mix_after)
    return mix_values(weights, value), weights


class MultiTokenAttention(SelfAttention):
    """Causal self-attention with a kernel a head, which starts as if it were not there.

        head_h = multi_token_attention(x W_h^Q, x W_h^K, x W_h^V, kernel_h)

    Args:
        embed_dim, num_heads: as in `attncourse.layers.MultiHeadAttention`.
        kernel_size: (c_q, c_k), queries and keys under the kernel; c_k is odd.
        after: a second kernel of this size, for the weights.
        mix_heads: two matrices that mix heads, before and behind the softmax.
        norm: ``"group"`` makes what each head read equally large, whatever its weights sum to, and scales it:
            (1 - lambda_init(layer)) RMSNorm(head_h), with `attncourse.variants.differential.lambda_init`.
        layer: where the layer stands in the model, counted from 0; only the norm wants to know.
        options: of `attncourse.layers.MultiHeadAttention`, without dropout.

    Raises:
        ValueError: dropout, an unknown norm, a c_k without a middle, or what `MultiHeadAttention` refuses.

    Cost: num_heads c_q c_k parameters more than `MultiHeadAttention` for each kernel, 2 num_heads^2 for the
        matrices, embed_dim / num_heads for the norm, which the heads share.
    Reduces to: `attncourse.layers.CausalSelfAttention` as long as nothing was learned, without the norm.
    Source: golovneva2025, section 3.
    Chapter: 17_multi_token.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kernel_size: tuple[int, int] = (6, 11),
        *,
        after: bool = False,
        mix_heads: bool = False,
        norm: str | None = None,
        layer: int = 0,
        **options,
    ):
        super().__init__(embed_dim, num_heads, **options)
        if self.dropout:
            raise ValueError(
                f"MultiTokenAttention has no dropout; got {self.dropout}, leave it at 0"
            )
        if norm not in (None, "group"):
            raise ValueError(f'norm must be "group" or None; got {norm!r}')
        self.kernel_size = kernel_size
        self.norm = nn.RMSNorm(embed_dim // num_heads, eps=1e-5) if norm else None
        self.lambda_init = lambda_init(layer)
        kernel, no_mixing = identity_kernel(num_heads, kernel_size), torch.eye(num_heads)
        self.kernel = nn.Parameter(kernel)
        self.kernel_after = nn.Parameter(kernel.clone()) if after else None
        self.mix = nn.Parameter(no_mixing) if mix_heads else None
        self.mix_after = nn.Parameter(no_mixing.clone()) if mix_heads else None

    def forward(self, x: Float[Tensor, "b n width"], *, is_causal: bool = True, **options):
        """`MultiHeadAttention.forward` for one sequence, always causal: a kernel looks back at queries."""
        if not is_causal:
            raise ValueError("MultiTokenAttention is causal; got is_causal=False, leave it out")
        return super().forward(x, is_causal=True, **options)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        heads, weights = multi_token_attention(
            q,
            k,
            v,
            self.kernel,
            kernel_after=self.kernel_after,
            mix=self.mix,
            mix_after=self.mix_after,
            is_causal=is_causal,
            attn_mask=attn_mask,
        )
        if self.norm is not None:
            heads = (1 - self.lambda_init) * self.norm(heads)
        return heads, weights

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}"


def identity_kernel(heads: int, kernel_size: tuple[int, int]) -> Float[Tensor, "h c_q c_k"]:
    """Kernels that leave a table as it is: 1 where they meet the pair itself."""
    _check_width(kernel_size[1])
    kernel = torch.zeros(heads, *kernel_size)
    kernel[:, -1, kernel_size[1] // 2] = 1.0
    return kernel


def _check_width(columns: int) -> None:
    if columns % 2 == 0:
        raise ValueError(
            f"a kernel must be of odd width, so that it has a middle; got {columns} keys"
        )


def _hidden(attn_mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """Where a mask forbids a pair; ``None`` if there is no mask."""
    if attn_mask is None:
        return None
    return ~attn_mask if attn_mask.dtype == torch.bool else attn_mask == -math.inf


def _set_to_0(table: Tensor, hidden: Tensor | None) -> Tensor:
    return table if hidden is None else table.masked_fill(hidden, 0.0)
