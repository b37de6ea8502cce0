"""What others compute: `torch.nn.attention.flex_attention` and `torch.nn.MultiheadAttention`."""

import inspect
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex_module

from attncourse import spec


@torch.no_grad()
def flex(query, key, value, *, mask_mod=None, score_mod=None, **options) -> Tensor:
    """Output of flex_attention, run eagerly: our rules must work there unchanged."""
    if mask_mod is not None:
        # It counts arguments; the run-time check of shapes, attached under test only, hides them.
        size = (*query.shape[:3], key.size(2))
        rule = inspect.unwrap(mask_mod)
        options["block_mask"] = flex_module.create_block_mask(rule, *size, device="cpu")
    with mock.patch.object(flex_module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True):
        return flex_module.flex_attention(query, key, value, score_mod=score_mod, **options)


def torch_layer(layer, num_heads: int, query, key, value, attn_mask=None) -> Tensor:
    """Output of nn.MultiheadAttention with the weights of our layer copied into it."""
    bias = layer.q_proj.bias is not None
    widths = {"kdim": key.size(-1), "vdim": value.size(-1)}
    options = {"bias": bias, "batch_first": True, "dtype": query.dtype, **widths}
    theirs = nn.MultiheadAttention(query.size(-1), num_heads, **options)
    ours = [layer.q_proj, layer.k_proj, layer.v_proj]
    matrices = [projection.weight for projection in ours]
    copied = {"out_proj.weight": layer.out_proj.weight}
    if theirs.in_proj_weight is None:
        copied |= dict(zip((f"{x}_proj_weight" for x in "qkv"), matrices, strict=True))
    else:
        copied["in_proj_weight"] = torch.cat(matrices)
    if bias:
        copied["in_proj_bias"] = torch.cat([projection.bias for projection in ours])
        copied["out_proj.bias"] = layer.out_proj.bias
    theirs.load_state_dict(copied)
    if attn_mask is not None:  # there True hides, and the axes are (batch * heads, n, m)
        batch, n, m = query.size(0), query.size(1), key.size(1)
        attn_mask = ~attn_mask.expand(batch, num_heads, n, m).flatten(0, 1)
    return theirs(query, key, value, attn_mask=attn_mask, need_weights=False)[0]


def remake_by_loops(layer, num_heads: int, weights: Tensor, value: Tensor) -> Tensor:
    """The layer's output from its weights, with the loops of the specification around the mixing."""
    heads = spec.split_heads(spec.affine(value, layer.v_proj.weight, layer.v_proj.bias), num_heads)
    mixed = spec.merge_heads(torch.einsum("bhnm,bhme->bhne", weights, heads))
    return spec.affine(mixed, layer.out_proj.weight, layer.out_proj.bias)
