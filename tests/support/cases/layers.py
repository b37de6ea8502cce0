"""The layers among the variants; `cases` holds the functions and says what a variant is."""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Variant, draw, mix, some_pairs, variant
from support.cases.oracles import remake_by_loops, torch_layer


def three(inputs):
    """Query, key and value: a missing key is the query, a missing value is the key."""
    query, key, value = (*inputs, *[inputs[-1]] * (3 - len(inputs)))
    return query, key, value


def layered(s, layer, inputs, limit, visible=None, **fixed):
    """A variant of a module. Dropout is on in ``dropped`` only, where the module trains.

    Args:
        limit: given the layer and its output, returns two tensors that must be equal.
        visible: the pairs that the spec and torch may use.
        fixed: options of every call of the layer.
    """
    layer = layer.double().eval()

    def stored(*inputs, **options):
        return layer(*inputs, need_weights=True, **fixed | options)

    def by_loops(*inputs):
        parameters = dict(layer.named_parameters())
        return spec.multi_head_attention(*three(inputs), parameters, s.h, visible)

    def dropped(*inputs):
        layer.train()
        return stored(*inputs)

    return Variant(
        inputs=tuple(inputs),
        run=lambda *inputs: layer(*inputs, **fixed),
        stored=stored,
        spec=by_loops,
        remake=lambda weights, *inputs: remake_by_loops(layer, s.h, weights, three(inputs)[2]),
        limit=lambda: limit(layer, layer(*inputs, **fixed)),
        masked=lambda mask, *inputs: stored(*inputs, attn_mask=mask),
        dropped=dropped,
        torch=lambda *inputs: torch_layer(layer, s.h, *three(inputs), visible),
        layer=layer,
        is_causal=fixed.get("is_causal", False),
        fused=True,
    )


def heads_of(layer, x, name: str, count: int):
    """A projection of the layer cut into heads, with torch's operations only."""
    proj = getattr(layer, name)
    return F.linear(x, proj.weight, proj.bias).unflatten(-1, (count, -1)).transpose(1, 2)


def attending(layer, x, limit, by_loops=None, heads=(), joined=None, fixed=None, **own):
    """A variant of a layer that attends in its own way, over one sequence.

    Args:
        limit: given the layer and its input, returns two tensors that must be equal.
        by_loops: heads and weights, from queries, keys and values.
        heads: how many of each; of many or few, as the layer says.
        joined: what the layer makes of its heads; its last projection, if nothing else.
        fixed: options of every call.
        own: fields of the variant that are otherwise.
    """
    joined = joined or (lambda heads: layer.out_proj(spec.merge_heads(heads)))
    fixed = fixed or {}

    def projected(x):
        counts = heads or (layer.num_heads, layer.num_kv_heads, layer.num_kv_heads)
        names = ("q_proj", "k_proj", "v_proj")
        return [heads_of(layer, x, name, h) for name, h in zip(names, counts, strict=True)]

    def loops(x):
        heads, weights = by_loops(*projected(x))
        return joined(heads), weights

    usual = {
        "run": partial(layer, **fixed),
        "stored": partial(layer, need_weights=True, **fixed),
        "spec": loops,
        "remake": lambda weights, x: joined(mix(weights, None, None, projected(x)[2])),
        "masked": lambda mask, x: layer(x, attn_mask=mask, need_weights=True, **fixed),
        "is_causal": fixed.get("is_causal", False),
    }
    return Variant(inputs=(x,), limit=lambda: limit(layer, x), layer=layer, **usual | own)


def sequences(s, *lengths_and_widths):
    """Inputs (b, length, width); one as wide as the heads where nothing is said."""
    sizes = lengths_and_widths or [(s.n, s.h * s.d)]
    return draw(*[(s.b, length, width) for length, width in sizes])


@variant("MultiHeadAttention, self", m=5, d=4)
def layer_self(p, s):
    (x,) = sequences(s)

    def one_head_without_projections(_, __):
        layer = p.layers.MultiHeadAttention(s.h * s.d, 1, bias=False).double().eval()
        for projection in layer.children():
            torch.nn.init.eye_(projection.weight)
        return layer(x), p.steps.attention(x, x, x)[0]

    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5)
    return layered(s, layer, [x], one_head_without_projections)


@variant("MultiHeadAttention, cross", d=4)
def layer_cross(p, s):
    x, memory = sequences(s, (s.n, s.h * s.d), (s.m, s.h * s.d))
    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5)
    # Whoever asks himself is in self-attention.
    return layered(s, layer, [x, memory], lambda layer, _: (layer(x, x), layer(x)))


@variant("MultiHeadAttention, causal", d=4)
def layer_causal(p, s):
    inputs = sequences(s, (s.n, s.h * s.d), (s.m, s.h * s.d))

    def last_of_n_reads_n(layer, out):
        return out[:, -1], layer(inputs[0], inputs[1][:, : s.n])[:, -1]

    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5)
    return layered(s, layer, inputs, last_of_n_reads_n, spec.causal(s.n, s.m), is_causal=True)


@variant("MultiHeadAttention, causal and bool mask", d=4)
def layer_masked(p, s):
    inputs = sequences(s, (s.n, s.h * s.d), (s.m, s.h * s.d))
    mask = some_pairs(s.b, 1, s.n, s.m)

    def everything_visible(layer, _):
        return layer(*inputs, attn_mask=torch.ones_like(mask)), layer(*inputs)

    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5)
    options = {"is_causal": True, "attn_mask": mask}
    return layered(s, layer, inputs, everything_visible, mask & spec.causal(s.n, s.m), **options)


@variant("MultiHeadAttention, kdim and vdim", d=4)
def layer_widths(p, s):
    inputs = sequences(s, (s.n, s.h * s.d), (s.m, 17), (s.m, 19))

    def wide_inputs_of_zeros(layer, out):  # a wider input whose new columns hold 0 changes nothing
        wide = p.layers.MultiHeadAttention(s.h * s.d, s.h, kdim=23, vdim=29).double()
        for name, matrix in layer.state_dict().items():
            part = wide.state_dict()[name]
            part[tuple(map(slice, matrix.shape))] = matrix
        query, key, value = inputs
        pad = torch.nn.functional.pad
        return wide(query, pad(key, (0, 6)), pad(value, (0, 10))), out

    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5, kdim=17, vdim=19)
    return layered(s, layer, inputs, wide_inputs_of_zeros)


@variant("MultiHeadAttention, bias=False", m=5, d=4)
def layer_no_bias(p, s):
    (x,) = sequences(s)

    def biases_of_zero(layer, out):
        biased = p.layers.MultiHeadAttention(s.h * s.d, s.h, init="xavier").double()
        biased.load_state_dict(layer.state_dict(), strict=False)
        return biased(x), out

    layer = p.layers.MultiHeadAttention(s.h * s.d, s.h, dropout=0.5, bias=False)
    return layered(s, layer, [x], biases_of_zero)


def same_as(p, s, options, *inputs):
    """A named class coincides with `MultiHeadAttention` and the options that it stands for."""

    def limit(layer, out):
        general = p.layers.MultiHeadAttention(s.h * s.d, s.h).double()
        general.load_state_dict(layer.state_dict())
        return out, general(*inputs, **options)

    return limit


@variant("SelfAttention", m=5, d=4)
def self_attention(p, s):
    (x,) = sequences(s)
    layer = p.layers.SelfAttention(s.h * s.d, s.h, dropout=0.5)
    return layered(s, layer, [x], same_as(p, s, {}, x))


@variant("CausalSelfAttention", m=5, d=4)
def causal_self_attention(p, s):
    (x,) = sequences(s)
    layer = p.layers.CausalSelfAttention(s.h * s.d, s.h, dropout=0.5)
    limit = same_as(p, s, {"is_causal": True}, x)
    return replace(layered(s, layer, [x], limit, spec.causal(s.n, s.n)), is_causal=True)


@variant("CrossAttention", d=4)
def cross_attention(p, s):
    inputs = sequences(s, (s.n, s.h * s.d), (s.m, s.h * s.d))
    layer = p.layers.CrossAttention(s.h * s.d, s.h, dropout=0.5)
    return layered(s, layer, inputs, same_as(p, s, {}, *inputs))
