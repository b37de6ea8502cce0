"""FlashAttention as a ladder: each rung computes the same as the one below, in an order that moves fewer bytes.

`online` is the softmax in one pass, `tiled` the whole algorithm in PyTorch, `kernels` the same in Triton,
`hopper` its forward pass for one generation of cards, `ring` the same over several processes, `split_kv` over
a cache in pieces.
"""

import importlib
import math
from types import ModuleType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attncourse.interface import check_sequences
from attncourse.steps import check_mask
from attncourse.variants.flash import tiled
from attncourse.variants.flash.backends import MODULES, choose


class Aux(NamedTuple):
    """What `flash_attention` says beside its output.

    Args:
        lse: (b, h, n), the log of the sum of exp(score) of each row; minus infinity where nothing is visible.
        backend: "tiled", "triton" or "hopper", whichever computed it.
    """

    lse: Tensor
    backend: str


def flash_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    offset: int = 0,
    backend: str | None = None,
    return_aux: bool = False,
) -> Float[Tensor, "b h n e"] | tuple[Float[Tensor, "b h n e"], Aux]:
    """Exact attention that never stores the n m weights, forward or backward.

        output = softmax(scale query key^T) value

    Args:
        query, key, value: any lengths; values may have another width.
        attn_mask: bool, ``True`` = may attend, two axes or four. Only the backend "tiled" takes one.
        is_causal: query i reads keys 0..i + offset. With ``attn_mask`` both apply.
        scale: factor on the dot products; ``None`` means 1 / sqrt(head_dim).
        enable_gqa: key and value may have fewer heads; query head h reads head h // (h / g).
        offset: position of query 0 among the keys: 0 is torch's ``is_causal`` (top-left), m - n aligns
            the ends (bottom-right). It acts with ``is_causal`` only.
        backend: "tiled", "triton" or "hopper"; ``None`` takes the best that this machine and these inputs allow.
        return_aux: return (output, `Aux`) as well: the log-sum-exp, differentiable, and the backend.

    Returns: the output; 0, with zero gradient, for a query that may read nothing.

    Raises:
        TypeError: a mask that is not bool. ValueError: shapes that do not fit, or an unknown backend.
        RuntimeError: the named backend cannot run here; the message says what it lacks.

    It can be compiled as one graph and batched (``torch.vmap``). A graph holds the tiles of one length.

    Cost: 2 n m (d + e) FLOPs per head, half if causal; the gradients take 2.5 times as much ("tiled") or
        3.5 times ("triton"). Memory grows with n + m.
    Reduces to: ``torch.nn.functional.scaled_dot_product_attention``, to rounding.
    Source: dao2022; dao2023.
    """
    check_inputs(query, key, value, attn_mask, enable_gqa)
    chosen = choose(backend, query, value, attn_mask)
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    if scale <= 0:  # the kernels rely on a positive scale
        query, scale = query * scale, 1.0
    key, value = key.view_as(key), value.view_as(value)  # a graph wants three tensors, even of one
    rule = (scale, is_causal, offset)
    output, lse = Flash.apply(query, key, value, attn_mask, module_of(chosen), rule)
    return (output, Aux(lse, chosen)) if return_aux else output


def module_of(backend: str) -> ModuleType:
    """Where a backend is written; those that need Triton are imported when they are used."""
    if backend == "tiled":
        return tiled
    return importlib.import_module(f"attncourse.variants.flash.{MODULES[backend]}")


class Flash(torch.autograd.Function):
    """Joins a backend's `forward` and `backward`: what autograd would store is n m numbers, this is n."""

    generate_vmap_rule = True

    @staticmethod
    def forward(query, key, value, attn_mask, module: ModuleType, rule: tuple):
        """Output and one number a row."""
        return module.forward(query, key, value, *rule, *_if_there(attn_mask))

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep the inputs, too."""
        query, key, value, attn_mask, ctx.module, ctx.rule = inputs
        ctx.save_for_backward(query, key, value, *output, attn_mask)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output, grad_lse):
        """Gradients of query, key and value."""
        *saved, attn_mask = ctx.saved_tensors
        rule = *ctx.rule, *_if_there(attn_mask)
        gradients = ctx.module.backward(grad_output, grad_lse, *saved, *rule)
        return *gradients, None, None, None


def _if_there(attn_mask: Tensor | None) -> tuple[Tensor, ...]:
    """Only one backend takes a mask."""
    return () if attn_mask is None else (attn_mask,)


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, enable_gqa: bool
) -> None:
    """Refuse what no backend can compute, before any of them starts."""
    check_sequences(query, key, value, shared_heads=True)
    if not enable_gqa and query.size(1) != key.size(1):
        raise ValueError(
            f"query and key must have as many heads; got {query.size(1)} and {key.size(1)}. For fewer key/value heads "
            f"set enable_gqa=True"
        )
    if not (query.dtype == key.dtype == value.dtype and query.is_floating_point()):
        raise TypeError(
            f"query, key and value must have one float dtype; got {query.dtype}, {key.dtype}, "
            f"{value.dtype}. Convert them with .to(query.dtype)"
        )
    if attn_mask is None:
        return
    check_mask(attn_mask, axes=4)
    if attn_mask.dtype != torch.bool:
        raise TypeError(
            f"attn_mask must be bool (True = may attend); got {attn_mask.dtype}. A mask that is added "
            f"to the scores works in attncourse.scaled_dot_product_attention"
        )
    needed = (*query.shape[:3], key.size(2))[-attn_mask.dim() :]
    if any(size not in (1, full) for size, full in zip(attn_mask.shape, needed, strict=True)):
        raise ValueError(
            f"attn_mask must have the axes {needed}, or 1 in some of them; got {tuple(attn_mask.shape)}"
        )
