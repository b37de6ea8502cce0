"""Multi-token attention: the scores of neighbouring queries and keys decide together who is read."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.decoding import decodes
from attncourse.interface import check_sequences
from attncourse.layers import CausalSelfAttention
from attncourse.steps import (
    add_causal,
    check_mask,
    fold_heads,
    mask,
    normalize,
    score,
    unfold_heads,
)
from attncourse.steps import mix as mix_values
from attncourse.variants.differential import lambda_init, normed
from attncourse.variants.multi_token_cache import NeighbourCache, decode_with_neighbours
from attncourse.variants.talking_heads import mix_heads

# A float mask that is as low as this hides a key; masks of padding hold -1e9 or the lowest float, which in float16 is
# no lower than -65504 and hides there. A bias that only weakens does not come so low: ALiBi's falls by less than 1 a
# token, and would need a text of 10^8 tokens. The -1e4 of some old models is not low enough.
HIDES = -1e8


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

    Cost: 2 c_q c_k n m FLOPs per head, and a table with c_q - 1 rows more; two copies of the table where gradients
        are wanted.
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
    learns = torch.is_grad_enabled() and (table.requires_grad or kernel.requires_grad)
    if learns or heads < 12:  # a CPU goes backwards twice as fast with the heads last in memory
        table = table.movedim(1, -1).contiguous().movedim(-1, 1)
    # conv2d pads below as well: what it finds there are rows that the table does not have.
    padding = (rows - 1, columns // 2)
    return F.conv2d(table, kernel[:, None], padding=padding, groups=heads)[:, :, : table.size(2)]


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
    dropout_p: float = 0.0,
    offset: int = 0,
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
        mix, mix_after: of `attncourse.variants.talking_heads.mix_heads`, behind the first and the second convolution.
        is_causal: query i reads keys 0..i; with ``attn_mask``, both apply.
        attn_mask: bool, ``True`` = may attend, or float, added behind the convolution; `HIDES` and less hides.
        scale, dropout_p: as in `attncourse.steps.scaled_dot_product_attention`; dropped is what mixes the values.
        offset: position of query 0 among the keys. What it reads depends on the queries before it: give them, too.

    Returns: output, and the weights that made it. With kernel_after or mix_after their rows do not sum to 1.

    Raises:
        ValueError: a kernel that `convolve` refuses, or sequences that do not fit. TypeError: an integer mask.

    Cost: `convolve` on top of `attncourse.steps.attention`; torch has no fused version, so the n m weights are stored.
    Reduces to: causal `attncourse.steps.attention` when the kernel is the identity's.
    Source: golovneva2025, section 3.
    Chapter: 17_multi_token.
    """
    check_sequences(query, key, value, shared_heads=True)
    attn_mask = _surely_hidden(attn_mask)
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(2), key.size(2), query.device, offset)
    hidden = _hidden(attn_mask)
    h, g = query.size(1), key.size(1)
    scores = unfold_heads(score(fold_heads(query, g), key, scale), h)
    scores = convolve(_set_to_0(scores, hidden), kernel)
    if mix is not None:
        scores = mix_heads(scores, mix)
    weights = normalize(mask(scores, attn_mask))
    if kernel_after is not None:
        weights = _set_to_0(convolve(weights, kernel_after), hidden)
    if mix_after is not None:
        weights = mix_heads(weights, mix_after)
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return unfold_heads(mix_values(fold_heads(weights, g), value), h), weights


class MultiTokenAttention(CausalSelfAttention):
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
        options: of `attncourse.layers.MultiHeadAttention`.

    Raises:
        ValueError: an unknown norm, a c_k without a middle, another sequence as key, or what `MultiHeadAttention`
            refuses.

    Cost: num_heads c_q c_k parameters more than `MultiHeadAttention` for each kernel, 2 num_heads^2 for the
        matrices, embed_dim / num_heads for the norm, which the heads share. A decoded token takes c_q times as many
        FLOPs as that of `MultiHeadAttention`, c_q + a_q - 1 times with a second kernel; see `NeighbourCache`.
    Reduces to: `attncourse.layers.CausalSelfAttention` as long as nothing was learned, without the norm.
    Source: golovneva2025, section 3.
    Chapter: 17_multi_token.
    """

    one_sequence = "its kernel looks along queries and keys, which must be those of one sequence"

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

    def rows_before(self) -> int:
        """How many queries before it take part in what a query reads."""
        kernels = self.kernel, self.kernel_after
        return sum(x.size(1) - 1 for x in kernels if x is not None)

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
            dropout_p=self.dropout_p,
            offset=offset,
        )
        if self.norm is not None:
            heads = (1 - self.lambda_init) * normed(heads, self.norm)
        return heads, weights

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}"


decodes(MultiTokenAttention, NeighbourCache.of)(decode_with_neighbours)


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


def _surely_hidden(attn_mask: Tensor | None) -> Tensor | None:
    """A mask that hides by low numbers, by minus infinity."""
    if attn_mask is None:
        return None
    check_mask(attn_mask, axes=4)
    if attn_mask.dtype == torch.bool:
        return attn_mask
    lowest = max(HIDES, torch.finfo(attn_mask.dtype).min)
    return attn_mask.masked_fill(attn_mask <= lowest, -math.inf)


def _hidden(attn_mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """Where a mask forbids a pair; ``None`` if there is no mask."""
    if attn_mask is None:
        return None
    return ~attn_mask if attn_mask.dtype == torch.bool else attn_mask == -math.inf


def _set_to_0(table: Tensor, hidden: Tensor | None) -> Tensor:
    return table if hidden is None else table.masked_fill(hidden, 0.0)
