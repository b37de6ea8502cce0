"""States that fade or are corrected against others: Qwen3-Next of transformers, and the plain files of fla."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from linear import library
from support.cases import draw
from support.contracts import close, gradients
from transformers import DynamicCache, Qwen3NextConfig
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from attncourse import decode, new_cache
from attncourse.variants.delta import GatedDeltaAttention, delta_rule
from attncourse.variants.gated import gated_linear_attention

B, H, N, D, E = 2, 4, 128, 16, 16
# They compute in float32, whatever comes in.
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def drawn(channels: bool = False) -> list[torch.Tensor]:
    """Queries, keys of length 1, values, log-decays and betas in float32."""
    q, k, v = draw((B, H, N, D), (B, H, N, D), (B, H, N, E))
    decay, beta = draw((B, H, N, D) if channels else (B, H, N), (B, H, N))
    inputs = q, F.normalize(k, dim=-1), v, -decay.abs() / 4, torch.sigmoid(beta)
    return [x.float().requires_grad_() for x in inputs]


def swapped(*inputs: torch.Tensor) -> list[torch.Tensor]:
    """Their axes are (batch, seq, heads, width)."""
    return [x.transpose(1, 2).contiguous() for x in inputs]


def ours(q, k, v, g, beta, **options):
    return delta_rule(q, k, v, beta, log_decay=g, return_state=True, **options)


def both_alike(found, expected, inputs) -> None:
    """Outputs, states, and what they send back."""
    close(found, expected, **NEAR)
    close(gradients(found, inputs), gradients(expected, inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "rule", [qwen.torch_chunk_gated_delta_rule, qwen.torch_recurrent_gated_delta_rule]
)
def test_the_gated_delta_rule_is_that_of_qwen(rule):
    inputs = drawn()
    out, state = rule(*swapped(*inputs), output_final_state=True)
    both_alike(ours(*inputs), (out.transpose(1, 2), state), inputs)


def test_the_gated_delta_rule_is_that_of_fla():
    inputs = drawn()
    q, k, v, g, beta = swapped(*inputs)
    rule = library("gated_delta_rule").naive_recurrent_gated_delta_rule
    out, state = rule(q, k, v, beta, g, output_final_state=True)
    both_alike(ours(*inputs), (out.transpose(1, 2), state), inputs)


@pytest.mark.parametrize("rule", ["naive_recurrent_kda", "naive_chunk_kda"])
def test_a_decay_for_each_channel_is_that_of_kimi(rule):
    inputs = drawn(channels=True)
    rule = getattr(library("kda"), rule)
    out, state = rule(*swapped(*inputs), output_final_state=True)
    both_alike(ours(*inputs), (out.transpose(1, 2), state), inputs)


def test_gated_linear_attention_is_that_of_fla():
    *inputs, _ = drawn(channels=True)
    out, state = library("gla").naive_recurrent_gla(*swapped(*inputs), output_final_state=True)
    found = gated_linear_attention(*inputs, return_state=True)
    both_alike(found, (out.transpose(1, 2), state), inputs)


def test_a_state_goes_on_in_theirs_and_in_ours():
    q, k, v, g, beta = drawn()
    first, rest = ([x[:, :, at] for x in (q, k, v, g, beta)] for at in (slice(64), slice(64, None)))
    _, state = ours(*first)
    found = ours(*rest, state=state)
    rule = partial(qwen.torch_chunk_gated_delta_rule, output_final_state=True)
    out, last = rule(*swapped(*rest), initial_state=rule(*swapped(*first))[1])
    both_alike(found, (out.transpose(1, 2), last), [q, k, v, g, beta])


def released(layer: GatedDeltaAttention):
    """Qwen3-Next's layer with our weights: queries, keys, values and gates of a query head lie side by side there."""
    groups, heads, width = layer.num_qk_heads, layer.num_heads, layer.head_dim
    config = Qwen3NextConfig(
        hidden_size=layer.embed_dim, linear_num_key_heads=groups, linear_num_value_heads=heads,
        linear_key_head_dim=width, linear_value_head_dim=width, linear_conv_kernel_dim=layer.conv.size,
        num_hidden_layers=1, layer_types=["linear_attention"],
    )  # fmt: skip
    theirs = qwen.Qwen3NextGatedDeltaNet(config, 0).double().eval()

    def by_group(*matrices):
        return torch.cat([x.unflatten(0, (groups, -1)) for x in matrices], dim=1).flatten(0, 1)

    with torch.no_grad():
        theirs.in_proj_qkvz.weight.copy_(
            by_group(*(getattr(layer, f"{x}_proj").weight for x in ("q", "k", "v", "gate")))
        )
        theirs.in_proj_ba.weight.copy_(by_group(layer.beta_proj.weight, layer.decay_proj.weight))
        theirs.dt_bias.copy_(layer.decay_proj.bias)
        theirs.A_log.copy_(layer.rate)
        theirs.conv1d.weight.copy_(layer.conv.weight[:, None])
        theirs.norm.weight.copy_(layer.norm.weight)
        theirs.out_proj.weight.copy_(layer.out_proj.weight)
    return theirs


def qwens_layer() -> GatedDeltaAttention:
    torch.manual_seed(0)
    layer = GatedDeltaAttention(64, 4, num_qk_heads=2, conv_size=4, gate="silu").double()
    with torch.no_grad():
        for x in (layer.rate, layer.decay_proj.bias, layer.norm.weight):
            x.add_(torch.randn_like(x))
    return layer


def test_the_layer_is_that_of_qwen():
    """With fewer heads of queries and keys, the short convolution, the gated norm; and with padding on the left."""
    layer = qwens_layer()
    theirs, (x,) = released(layer), draw((B, 70, 64))
    close(layer(x), theirs(x), **NEAR)
    mask = torch.arange(70) >= torch.tensor([[5], [0]])
    found, expected = layer(x, attn_mask=mask[:, None, None]), theirs(x, attention_mask=mask)
    close(found[mask], expected[mask], **NEAR)


def test_the_layer_decodes_as_that_of_qwen():
    layer = qwens_layer()
    theirs, (x,) = released(layer), draw((B, 9, 64))
    kept, cache = (
        DynamicCache(config=Qwen3NextConfig(num_hidden_layers=1, layer_types=["linear_attention"])),
        new_cache(layer, B, 9),
    )
    for part in x.split((5, 1, 1, 1, 1), dim=1):
        close(decode(layer, part, cache), theirs(part, cache_params=kept), **NEAR)
