"""What must hold of a short convolution: cut anywhere it goes on, and it is torch's."""

import pytest
import torch
import torch.nn.functional as F

from support.cases import draw, module
from support.contracts import close


def a_convolution_is_torchs_and_goes_on_where_it_was_cut(p):
    torch.manual_seed(0)
    (x,) = draw((2, 9, 5))
    for size in (1, 2, 4):
        conv = module(p, "short_convolution").ShortConvolution(5, size).double()
        known = F.conv1d(x.mT, conv.weight[:, None], padding=size - 1, groups=5)[..., :9]
        out, tail = conv(x)
        close(out, F.silu(known).mT)
        assert tail.shape == (2, size - 1, 5)
        parts, tail = [], None
        for part in x.split((4, 1, 1, 3), dim=1):
            out_of_part, tail = conv(part, tail)
            parts.append(out_of_part)
        close(torch.cat(parts, 1), out)
        assert f"channels=5, size={size}" in repr(conv)
    with pytest.raises(ValueError, match="size counts the token itself .* got -1"):
        module(p, "short_convolution").ShortConvolution(5, -1)
    with pytest.raises(ValueError, match="got 0"):
        module(p, "short_convolution").ShortConvolution(5, 0)


def a_gate_multiplies_what_was_normalized(p):
    torch.manual_seed(0)
    (x,) = draw((2, 5, 12))
    for name, gate in (("silu", F.silu), ("sigmoid", torch.sigmoid)):
        layer = module(p, "delta").GatedDeltaAttention(12, 3, gate=name).double()
        out, _ = layer.attend(*layer.heads(x), state=None)
        read = p.layers.merge_heads(layer.norm(out))
        close(layer(x), layer.out_proj(read * gate(layer.gate_proj(x))))


def without_its_options_a_layer_has_what_it_had(p):
    names = {"q_proj", "k_proj", "v_proj", "decay_proj", "norm", "out_proj", "beta_proj", "rate"}
    layer = module(p, "delta").GatedDeltaAttention(12, 3)
    assert {name.split(".")[0] for name in layer.state_dict()} == names
