"""What must hold for caches with sinks, beyond the contracts."""

import pytest
import torch

from attncourse import spec
from support.cases import Sizes, draw, module
from support.cases.sinks import sink_layer
from support.claims import decoded
from support.contracts import close

B, N, WIDTH, H = 2, 19, 24, 6


class StartRecent:
    """The rule as its authors run it: before a token comes, make room; what is left is cut and joined.

    start_size tokens of the beginning stay, and recent_size of the end, the coming one among them.
    """

    def __init__(self, start_size: int, recent_size: int):
        self.start_size, self.recent_size = start_size, recent_size
        self.tokens = []

    def step(self, token: int) -> list[int]:
        coming = 1
        if len(self.tokens) + coming > self.start_size + self.recent_size:
            recent = self.tokens[len(self.tokens) - self.recent_size + coming :]
            self.tokens = self.tokens[: self.start_size] + recent
        self.tokens = [*self.tokens, token]
        return self.tokens


def a_sink_cache_keeps_what_start_and_recent_keep_at_every_step(p):
    for sinks, window in ((4, 8), (1, 4), (0, 3), (3, 1)):
        theirs = StartRecent(sinks, window)
        cache = module(p, "streaming").SinkCache(1, 1, sinks, window, 2)
        for token in range(40):
            number = torch.full((1, 1, 1, 2), float(token))
            keys, values = cache.append(number, number + 100)
            kept = theirs.step(token)
            assert cache.kept() == kept
            assert cache.length == token + 1
            order = cache.indices().argsort()
            assert keys[0, 0, order, 0].tolist() == kept
            assert values[0, 0, order, 0].tolist() == [100 + j for j in kept]
            assert cache.positions(1).item() == min(token + 1, sinks + window - 1)


def streaming_through_a_layer_is_the_full_pass(p):
    streaming = module(p, "streaming")
    (x,) = draw((B, N, WIDTH))
    layer = p.shared_heads.GroupedQueryAttention(WIDTH, H, 2).double()
    q, k, v = layer.project(x, x, x)
    for sinks, window in ((2, 5), (0, 4), (3, 1), (4, N)):
        heads, weights = streaming.streaming_attention(q, k, v, sinks, window)
        full = layer.out_proj(p.layers.merge_heads(heads))
        for size in (1, 3, 7, N):
            cache = streaming.SinkCache.of(layer, B, sinks, window)
            close(decoded(p, layer, x, cache, size, use_rotary=True), full)
        assert weights[0, 0, -1].nonzero()[:, 0].tolist() == cache.kept()


def without_sinks_a_sink_cache_is_a_window(p):
    streaming = module(p, "streaming")
    (x,) = draw((B, N, WIDTH))
    layer = p.layers.MultiHeadAttention(WIDTH, H).double()
    i, j = torch.arange(N)[:, None], torch.arange(N)
    for use_rotary in (False, True):
        positions = torch.arange(N) if use_rotary else None
        full = layer(x, attn_mask=(j <= i) & (i - j < 4), positions=positions)
        cache = streaming.SinkCache.of(layer, B, num_sinks=0, window=4)
        close(p.decoding.decode(layer, x, cache, use_rotary=use_rotary), full)


def a_long_prompt_leaves_the_cache_as_single_tokens_do(p):
    """Even one that is longer than the whole cache, so that its own tokens evict each other."""
    k, v = draw((1, 2, 17, 4), (1, 2, 17, 3))
    for size in (1, 5, 17):
        cache = module(p, "streaming").SinkCache(1, 2, 2, 4, 4, value_dim=3, dtype=torch.float64)
        for key, value in zip(k.split(size, 2), v.split(size, 2), strict=True):
            keys, values = cache.append(key.requires_grad_(), value)
        assert not keys.requires_grad
        order, kept = cache.indices().argsort(), cache.kept()
        close((keys[:, :, order], values[:, :, order]), (k[:, :, kept], v[:, :, kept]))


def a_sink_cache_says_what_it_is_and_what_it_refuses(p):
    make = module(p, "streaming").SinkCache
    cache = make(1, 2, 4, 8, 16)
    cache.append(torch.ones(1, 2, 30, 16), torch.ones(1, 2, 30, 16))
    assert repr(cache) == (
        "SinkCache(12 of 30 tokens: 4 sinks and a window of 8, batch 1, 2 key/value heads of width 16)"
    )
    assert cache.nbytes == 2 * 2 * 12 * 16 * 4
    for sinks, window in ((-1, 3), (2, 0)):
        with pytest.raises(ValueError, match=f"got {sinks} and {window}"):
            make(1, 2, sinks, window, 16)
    with pytest.raises(ValueError, match=r"must be \(1, 2, 1, 16\)"):
        cache.append(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 16))
    assert cache.length == 30


def layers_that_may_read_nothing_decode(p):
    (x,) = draw((B, N, WIDTH))
    sinks = module(p, "sinks")
    s = Sizes(h=H, d=WIDTH // H)
    at = torch.arange(N)
    for layer in (sink_layer(p, s, num_kv_heads=2), sinks.GatedAttention(WIDTH, H).double()):
        for use_rotary in (False, True):
            full = layer(x, is_causal=True, positions=at if use_rotary else None)
            cache = p.cache.KVCache.of(layer, B, N)
            close(decoded(p, layer, x, cache, 4, use_rotary=use_rotary), full)
    layer = sink_layer(p, s)
    cache = module(p, "streaming").SinkCache.of(layer, B, 2, 3)
    with pytest.raises(TypeError, match="with a KVCache, which keeps every token; got SinkCache"):
        p.decoding.decode(layer, x, cache)


def off_by_one_is_stable_and_reads_nothing_when_all_is_low(p):
    softmax = module(p, "sinks").softmax_off_by_one
    scores = torch.tensor([[[[1e4, 0.0], [-1e4, -2e4], [-torch.inf, -torch.inf], [0.0, 0.0]]]])
    expected = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1 / 3, 1 / 3]]
    close(softmax(scores)[0, 0], torch.tensor(expected), atol=1e-6)


def only_a_learned_sink_learns(p):
    make = module(p, "sinks").SinkAttention
    x = torch.randn(2, 5, 12)
    learned = make(12, 3)
    learned(x).square().sum().backward()
    assert learned.sink.grad.abs().min() > 0
    fixed = make(12, 3, learned=False)
    assert not fixed.sink.requires_grad
    assert not fixed.sink.any()
    q, k, v = fixed.project(x, x, x)
    heads, _ = spec.sink_attention(q, k, v, torch.zeros(3))
    close(fixed(x), fixed.out_proj(p.layers.merge_heads(heads)), atol=1e-5)
