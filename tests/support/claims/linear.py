"""What must hold for linear attention, beyond the contracts: one state, any chunks, no table, and messages."""

from functools import partial

import pytest
import torch

from attncourse import spec
from support.cases import draw, module
from support.claims import decoded, refused
from support.contracts import close, largest_tensor


def chunks_and_cuts_change_nothing(p):
    """Any chunk, any cut into a state and a rest, both ways: the same output and gradients as pair by pair."""
    linear = module(p, "linear")
    q, k, v = draw((2, 4, 11, 3), (2, 2, 11, 3), (2, 2, 11, 5))
    for options in ({}, {"normalize": False, "feature_map": lambda x: x}):
        attend = partial(linear.linear_attention, **options)
        wanted = spec.linear_attention(q, k, v, is_causal=True, **options)[0]
        for chunk in (1, 4, 11, 64):
            close(attend(q, k, v, is_causal=True, chunk=chunk), wanted)
            start, rest = ([x[:, :, at] for x in (q, k, v)] for at in (slice(7), slice(7, None)))
            first, state = attend(*start, is_causal=True, chunk=chunk, return_state=True)
            close(first, wanted[:, :, :7])
            close(attend(*rest, is_causal=True, state=state, chunk=chunk), wanted[:, :, 7:])
        _, before = attend(q[:, :, :0], k[:, :, :7], v[:, :, :7], return_state=True)
        close(before, state)
        wanted = spec.linear_attention(q, k, v, **options)[0]
        close(attend(q, k[:, :, 7:], v[:, :, 7:], state=before), wanted)


def no_tensor_grows_with_the_square(p):
    """Not with n^2 and not with n d^2: the largest tensor is as long as the input."""
    linear = module(p, "linear")
    for n in (512, 1024):
        q, k, v = draw((1, 1, n, 32), (1, 1, n, 32), (1, 1, n, 32))
        needed = largest_tensor(partial(linear.linear_attention, is_causal=True), q, k, v)
        assert needed <= 8 * n * 33, needed


def features_that_are_all_0_read_0(p):
    linear = module(p, "linear")
    q, k, v = (x.requires_grad_() for x in draw((1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 5)))
    for is_causal in (False, True):
        options = {"is_causal": is_causal, "feature_map": torch.nn.functional.relu}
        output = linear.linear_attention(-q.abs(), k, v, **options)
        weights = linear.linear_weights(-q.abs(), k, **options)
        assert not output.any()
        assert not weights.any()
        found = torch.autograd.grad((output.sum() + weights.sum()), (q, k, v))
        assert all(x.isfinite().all() for x in found)


def random_features_average_the_exponential(p):
    linear = module(p, "linear")
    q, k = (x / 2 for x in draw((1, 1, 3, 6), (1, 1, 4, 6)))
    exact = torch.exp(q @ k.mT / 6**0.5)
    generator = torch.Generator().manual_seed(0)
    features = linear.random_features(6, 6 * 4000, generator)
    close(features(q) @ features(k).mT, exact, rtol=0.05)
    assert features(q).shape == (1, 1, 3, 24000)
    assert linear.random_features(6, 7)(q).shape == (1, 1, 3, 7)
    first = linear.random_features(6, 6, torch.Generator().manual_seed(1))
    close(first(q), linear.random_features(6, 6, torch.Generator().manual_seed(1))(q))


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
            p.cache.decode(layer, x, cache)


def linear_attention_says_what_is_wrong(p):
    linear = module(p, "linear")
    q, k, v = draw((2, 4, 5, 3), (2, 4, 6, 3), (2, 4, 6, 5))
    attend = linear.linear_attention
    layer, x = linear.LinearAttention(12, 4).double(), draw((2, 5, 12))[0]
    wrong, mask = torch.zeros(2, 4, 3, 5), torch.ones(5, 5, dtype=torch.bool)
    refused(
        ValueError,
        ("chunk counts the tokens of a step .* got 0", lambda: attend(q, k, v, chunk=0)),
        ("got 5 queries and 6 keys", lambda: attend(q, k, v, is_causal=True)),
        (r"state must be \(2, 4, 3, 6\)", lambda: attend(q, k, v, state=wrong)),
        ("has no dropout", lambda: linear.LinearAttention(12, 4, dropout=0.1)),
        ("no pair can be hidden", lambda: layer(x, attn_mask=mask)),
    )
