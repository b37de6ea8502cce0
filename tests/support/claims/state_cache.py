"""What must hold of the cache of a state: any chunks, drafts that are taken back, beams, and what it says of itself."""

import pytest
import torch

from attncourse import spec
from support.cases import draw, module
from support.claims import decoded
from support.claims.gated import layers
from support.contracts import close


def every(p):
    """A layer with a state of each kind."""
    torch.manual_seed(0)
    linear = module(p, "linear").LinearAttention
    return [linear(12, 3).double(), linear(12, 3, normalize=False).double(), *layers(p)]


def gated_layers_decode_with_one_state(p):
    torch.manual_seed(0)
    (x,) = draw((2, 9, 12))
    gated, delta, linear = module(p, "gated"), module(p, "delta"), module(p, "linear")
    for make in (gated.GatedLinearAttention, delta.GatedDeltaAttention):
        for per_channel in (False, True):
            layer = make(12, 3, per_channel=per_channel, chunk=2).double()
            wanted, weights = layer(x, need_weights=True)
            q, k, v, *gates = layer.heads(x)
            read, _ = spec.state_space(q, k, v, *gates)
            close(weights @ v, read)
            close(layer.out_proj(p.layers.merge_heads(layer.norm(read))), wanted)
            cache = linear.LinearCache(layer)
            close(decoded(p, layer, x, cache, (4, 1, 3, 1)), wanted)
            assert (cache.length, cache.nbytes) == (9, 8 * 2 * 3 * 4 * 4)
        for other in (linear.LinearCache(make(12, 3)), p.cache.KVCache(2, 3, 9, 4)):
            with pytest.raises(TypeError, match="decodes with a LinearCache of its own; got "):
                p.decoding.decode(layer, x, other)


def drafts_are_taken_back(p):
    """Any part of the last call, again and again; then decoding goes on as if they had not been there."""
    x, other = draw((2, 9, 12), (2, 9, 12))
    at = torch.arange(9)
    mask = torch.arange(9).expand(2, 1, 1, 9) >= torch.tensor([2, 0]).view(2, 1, 1, 1)
    for layer in every(p):
        for use_rotary in (False, True):
            options = {"positions": at if use_rotary else None, "attn_mask": mask}
            wanted = layer(x, is_causal=True, **options)
            cache = p.decoding.new_cache(layer, 2, 9)
            step = partial_step(p, layer, cache, use_rotary)
            step(x[:, :1], mask[..., :1])
            step(torch.cat([x[:, 1:6], other[:, 6:8]], 1), mask[..., 1:8])
            for length in (8, 7, 6):
                cache.crop(length)
                assert cache.length == length
            close(step(x[:, 6:7], mask[..., 6:7]), wanted[:, 6:7])
            cache.crop(6)
            close(step(x[:, 6:], mask[..., 6:]), wanted[:, 6:])


def partial_step(p, layer, cache, use_rotary):
    def step(x, mask):
        return p.decoding.decode(layer, x, cache, use_rotary=use_rotary, attn_mask=mask)

    return step


def what_cannot_be_taken_back_is_refused(p):
    (x,) = draw((1, 9, 12))
    layer = every(p)[0]
    cache = module(p, "state_cache").LinearCache(layer, drafts=3)
    cache.crop(0)
    for part in x[:, :7].split((3, 4), dim=1):
        cache.advance(part)
    for length in (-1, 2, 4, 6, 8):
        with pytest.raises(ValueError, match=rf"length must be 3 or 7: .* drafts=3; got {length}"):
            cache.crop(length)
    cache.crop(7)
    cache.crop(3)
    with pytest.raises(ValueError, match="length must be 3 or 3: .* got 2"):
        cache.crop(2)
    close(cache.advance(x[:, 3:5]), layer(x[:, :5], is_causal=True)[:, 3:])
    with pytest.raises(ValueError, match="length must be 3 to 5: .* got 6"):
        cache.crop(6)
    cache.crop(4)
    close(cache.advance(x[:, 4:5]), layer(x[:, :5], is_causal=True)[:, 4:])


def beams_go_on_with_their_states(p):
    (x,) = draw((3, 9, 12))
    rows = torch.tensor([2, 0, 2])
    for layer in every(p):
        cache = module(p, "state_cache").LinearCache(layer)
        present = torch.ones(3, 4, dtype=torch.bool)
        cache.advance(x[:, :4], present=present)
        cache.advance(x[:, 4:6], present=present[:, :2])
        cache.reorder(rows)
        wanted = layer(x[rows], is_causal=True)
        close(cache.advance(x[rows, 6:7]), wanted[:, 6:7])
        cache.reorder(torch.tensor([1, 1]))
        cache.crop(6)
        again = torch.tensor([0, 0])
        close(cache.advance(x[again, 6:]), wanted[[1, 1], 6:])
    empty = module(p, "state_cache").LinearCache(layer)
    empty.reorder(rows)
    assert (empty.length, empty.nbytes, repr(empty)) == (0, 0, "LinearCache(0 tokens in 0 bytes)")
