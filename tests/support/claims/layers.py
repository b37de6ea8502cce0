"""What must hold for layers beyond the contracts: no cache where none can be, and messages."""

import pytest
import torch

from support.cases import module
from support.claims import refused

WIDTH, HEADS = 12, 3


def _without_cache(p):
    """Layers that read what comes later."""
    yield module(p, "bigbird").BigBirdAttention(WIDTH, HEADS, 2)
    yield module(p, "longformer").LongformerAttention(WIDTH, HEADS, 2)


def layers_that_no_cache_serves_refuse_one(p):
    x = torch.zeros(1, 1, WIDTH)
    for layer in _without_cache(p):
        said = f"got {type(layer).__name__}, which attends in its own way"
        with pytest.raises(TypeError, match=said):
            p.decoding.decode(layer, x, p.cache.KVCache(1, HEADS, 5, WIDTH // HEADS))


def in_its_own_way(kind):
    """A new layer of the kind that attends as nobody foresaw."""

    class Halved(kind):
        def attend(self, *args):
            heads, weights = super().attend(*args)
            return heads / 2, weights

    return Halved


def a_layer_that_attends_in_its_own_way_is_not_decoded_as_another(p):
    for kind in (
        p.layers.MultiHeadAttention,
        p.layers.CausalSelfAttention,
        module(p, "sinks").SinkAttention,
        module(p, "sinks").GatedAttention,
        module(p, "differential").DifferentialAttention,
    ):
        layer = kind(WIDTH, HEADS)
        cache = p.decoding.new_cache(layer, 1, 5)
        p.decoding.decode(layer, torch.zeros(1, 1, WIDTH), cache)
        with pytest.raises(TypeError, match="attends in its own way"):
            p.decoding.decode(in_its_own_way(kind)(WIDTH, HEADS), torch.zeros(1, 1, WIDTH), cache)


def gaps_are_closed_behind_a_query_of_a_causal_layer(p):
    layer = module(p, "dilated").DilatedAttention(WIDTH, HEADS, (2, 1), 3)
    x = torch.randn(1, 11, WIDTH)
    for options, seen in (({}, [1, 4, 7, 10]), ({"is_causal": True}, [1, 4, 7])):
        _, weights = layer(x, need_weights=True, **options)
        assert weights[0, 0, 7].nonzero().flatten().tolist() == seen
    assert "window_size=(2, 1), step=3" in repr(layer)


def a_bigbird_layer_draws_for_its_length_and_seed(p):
    make = module(p, "bigbird").BigBirdAttention
    layer = make(WIDTH, HEADS, 2, 3, seed=4)
    for n, drawn in ((2, 0), (10, 0), (14, 2), (16, 3), (40, 3)):
        plan = layer.plan(n)
        assert plan.blocks.size(2) == 5 + drawn
        again = module(p, "bigbird").bigbird_plan(n // 2, drawn, HEADS, 4)
        assert plan.blocks.equal(again.blocks)
    assert not layer.plan(40).blocks.equal(make(WIDTH, HEADS, 2, 3, seed=5).plan(40).blocks)


def messages_of_these_layers_say_what_to_do(p):
    bigbird = module(p, "bigbird").BigBirdAttention(WIDTH, HEADS, 4)
    dilated, x = module(p, "dilated").DilatedAttention, torch.zeros(1, 8, WIDTH)
    visible = torch.ones(8, 8, dtype=torch.bool)
    refused(
        ValueError,
        ("multiple of block_size=4; got 7 tokens", lambda: bigbird(x[:, :7])),
        ("takes no is_causal: .* got is_causal", lambda: bigbird(x, is_causal=True)),
        ("takes padding, .* and no other attn_mask", lambda: bigbird(x, attn_mask=visible)),
        ("step is a distance between keys", lambda: dilated(WIDTH, HEADS, 4, 0)),
    )  # fmt: skip
