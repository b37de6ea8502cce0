"""What must hold for linear attention, beyond the contracts: padding, positions, one state, and messages."""

import pytest
import torch

from support.cases import draw, module
from support.claims import decoded, refused
from support.contracts import close


def a_layer_reads_another_sequence_and_not_its_padding(p):
    linear = module(p, "linear")
    torch.manual_seed(0)
    layer = linear.LinearAttention(12, 3).double()
    x, memory = draw((2, 5, 12), (2, 7, 12))
    mask = torch.arange(7) < torch.tensor([[4], [7]])
    out, weights = layer(x, memory, attn_mask=mask[:, None, None], need_weights=True)
    close(layer(x, memory, attn_mask=mask[:, None, None]), out)
    close(out[:1], layer(x[:1], memory[:1, :4]))
    close(out[1:], layer(x[1:], memory[1:]))
    assert not weights[0, ..., 4:].any()
    for one in (mask[:, None].expand(2, 3, 7), mask):
        q, k, v = layer.project(x, memory, memory)
        close(layer.out_proj(p.layers.merge_heads(layer.read(q, k, v, key_mask=one))), out)


def positions_turn_before_features(p):
    """So weights depend on distances of turned queries and keys, as their features see them."""
    linear = module(p, "linear")
    torch.manual_seed(0)
    layer, (x,) = linear.LinearAttention(12, 3).double(), draw((2, 5, 12))
    at = torch.arange(3, 8)
    q, k, v = layer.project(x, x, x)
    read = linear.linear_attention(p.positions.rotary(q, at), p.positions.rotary(k, at), v)
    close(layer(x, positions=at), layer.join(read, x))


def decoding_keeps_one_table(p):
    """In any chunks and with or without turning, decoding is the full pass; the state does not grow."""
    linear = module(p, "linear")
    torch.manual_seed(0)
    x = draw((2, 9, 16))[0]
    for options in ({}, {"normalize": False}):
        layer = linear.LinearAttention(16, 4, num_kv_heads=2, **options).double()
        for use_rotary in (False, True):
            positions = torch.arange(9) if use_rotary else None
            wanted = layer(x, is_causal=True, positions=positions)
            for sizes in ((9,), (4, 1, 3, 1)):
                cache = linear.LinearCache(layer)
                assert cache.nbytes == 0
                close(decoded(p, layer, x, cache, sizes, use_rotary=use_rotary), wanted)
                assert cache.length == 9
                assert cache.nbytes == 8 * 2 * 4 * 4 * (4 + ("normalize" not in options))
                assert repr(cache) == f"LinearCache(9 tokens in {cache.nbytes} bytes)"
    other = linear.LinearAttention(16, 4).double()
    for cache in (p.cache.KVCache(2, 2, 9, 4), linear.LinearCache(other)):
        with pytest.raises(TypeError, match="decodes with a LinearCache of its own; got "):
            p.decoding.decode(layer, x, cache)


def linear_attention_says_what_is_wrong(p):
    linear = module(p, "linear")
    q, k, v = draw((2, 4, 5, 3), (2, 4, 6, 3), (2, 4, 6, 5))
    attend = linear.linear_attention
    layer, x = linear.LinearAttention(12, 4).double(), draw((2, 5, 12))[0]
    wrong, mask = torch.zeros(2, 4, 3, 5), torch.ones(5, 5, dtype=torch.bool)
    heads = layer.project(x, x, x)
    refused(
        ValueError,
        ("chunk counts the tokens of a step .* got 0", lambda: attend(q, k, v, chunk=0)),
        ("got 5 queries and 6 keys", lambda: attend(q, k, v, is_causal=True)),
        ("one token or more", lambda: attend(q[:, :, :0], k, v)),
        ("same length", lambda: attend(q, k, v[:, :, :4])),
        (r"state must be \(2, 4, 3, 6\)", lambda: attend(q, k, v, state=wrong)),
        ("key_mask must be bool", lambda: attend(q, k, v, key_mask=torch.ones(2, 6))),
        (r"of shape \(2, 6\) or \(2, 4, 6\)", lambda: attend(q, k, v, key_mask=mask[:2])),
        ("has no dropout", lambda: linear.LinearAttention(12, 4, dropout=0.1)),
        ("no pair can be hidden", lambda: layer(x, attn_mask=mask)),
        ("takes no offset", lambda: layer.attend(*heads, is_causal=True, offset=2)),
    )
    assert attend(q[:0], k[:0], v[:0]).shape == (0, 4, 5, 5)
