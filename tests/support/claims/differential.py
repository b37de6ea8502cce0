"""What must hold for maps that are subtracted, beyond the contracts."""

import pytest
import torch

from support.cases import Sizes, draw, module, some_pairs
from support.cases.differential import differential_layer, pairs
from support.claims import decoded
from support.contracts import close

B, N, WIDTH, H = 2, 11, 24, 3


def a_layer_that_subtracts_decodes(p):
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    for use_rotary in (False, True):
        positions = torch.arange(N) if use_rotary else None
        full = layer(x, is_causal=True, positions=positions)
        cache = p.cache.KVCache.of(layer, B, N)
        close(decoded(p, layer, x, cache, 4, use_rotary=use_rotary), full)
    cache = module(p, "streaming").SinkCache.of(layer, B, 2, 3)
    with pytest.raises(TypeError, match="with a KVCache; got SinkCache"):
        p.cache.decode(layer, x, cache)


def positions_turn_both_heads_of_a_pair(p):
    """Only distances count, so that a shift of all positions changes nothing; an order does."""
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    at = torch.arange(N)
    close(layer(x, positions=at + 100), layer(x, positions=at), atol=1e-10)
    assert (layer(x, positions=at.flip(0)) - layer(x)).abs().max() > 0.01
    q, k, _ = layer.project(x, x, x, at)
    both = [p.layers.split_heads(f(x), 2 * H) for f in (layer.q_proj, layer.k_proj)]
    close([q, k], [p.positions.rotary(y, at) for y in both])


def a_mask_for_each_pair_hides_from_both_of_its_heads(p):
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    for heads in (1, H):
        visible = some_pairs(B, heads, N, N)
        for options in ({}, {"is_causal": True}):
            fused = layer(x, attn_mask=visible, **options)
            close(layer(x, attn_mask=visible, need_weights=True, **options)[0], fused)


def what_is_subtracted_starts_small_and_grows_with_depth(p):
    differential = module(p, "differential")
    starts = [differential.lambda_init(layer) for layer in range(40)]
    assert abs(starts[0] - 0.2) < 1e-12
    assert starts == sorted(starts)
    assert 0.799 < starts[-1] < 0.8
    torch.manual_seed(0)
    layers = [differential.DifferentialAttention(64, 1, layer=1) for _ in range(100)]
    lams = torch.stack([layer.lam() for layer in layers])
    assert abs(lams.mean() - starts[1]) < 0.05
    assert 0.02 < lams.std() < 0.2


def a_pair_needs_two_heads(p):
    differential = module(p, "differential")
    q, k, v = pairs(Sizes())
    for wrong in ((q[:, :3], k[:, :3], v), (q, k[:, :3], v), (q, k, v[:, :1])):
        with pytest.raises(ValueError, match="two heads for each of value's"):
            differential.differential_attention(*wrong, 0.5)
    with pytest.raises(ValueError, match="each head is a pair; got embed_dim=6 and num_heads=2"):
        differential.DifferentialAttention(6, 2)
