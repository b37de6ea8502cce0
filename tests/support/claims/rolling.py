"""What must hold behind caches of windows: chunks, padding, drafts that are taken back, beams, and messages."""

from functools import partial

import pytest
import torch

from support.cases import draw, module
from support.claims import decoded, refused
from support.contracts import close, largest_tensor

B, N, WIDTH = 2, 13, 24


def decoding_behind_a_rolling_cache_is_the_full_pass_with_the_window(p):
    """In chunks of any length, also longer than the window; with shared key heads, with and without rotation."""
    (x,) = draw((B, N, WIDTH))
    layer = module(p, "window").SlidingWindowAttention(WIDTH, 6, (3, 1), num_kv_heads=2).double()
    for use_rotary in (False, True):
        positions = torch.arange(N) if use_rotary else None
        full = layer(x, is_causal=True, positions=positions)
        for sizes in ([1] * N, [2] * 6 + [1], [3, 1, 1, 4, 4], [4, 9], [5, 1, 7], [N], [1, 12]):
            cache = module(p, "rolling").RollingKVCache.of(layer, B, 3)
            close(decoded(p, layer, x, cache, sizes, use_rotary=use_rotary), full)
            assert cache.length == N
            assert cache.key.shape == (B, 2, 4, WIDTH // 6)


def _decoding(p):
    """Layers with a window that decode, each with the cache that it asks for."""
    torch.manual_seed(0)
    yield module(p, "window").SlidingWindowAttention(WIDTH, 6, (3, 1), num_kv_heads=2).double()
    yield module(p, "dilated").DilatedAttention(WIDTH, 6, (2, 1), 3, num_kv_heads=2).double()


def windows_behind_a_new_cache_are_the_full_pass(p):
    (x,) = draw((B, N, WIDTH))
    for layer in _decoding(p):
        for positions in (None, torch.arange(N)):
            full = layer(x, is_causal=True, positions=positions)
            for sizes in ([1] * N, [3, 1, 1, 4, 4], [N]):
                cache = p.decoding.new_cache(layer, B, N)
                options = {"use_rotary": positions is not None}
                close(decoded(p, layer, x, cache, sizes, **options), full)


def padding_on_the_left_of_a_window_is_not_read(p):
    """Sequences of 7 and 13 tokens in one batch, and the shorter one alone."""
    (x,) = draw((B, N, WIDTH))
    real = torch.ones(B, N, dtype=torch.bool)
    real[0, :6] = False
    for layer in _decoding(p):
        together = layer(x, attn_mask=real[:, None, None], is_causal=True)
        close(together[:1, 6:], layer(x[:1, 6:], is_causal=True))
        for ends in ([2, 8, 9, N], [8, 9, 10, 11, N], [N]):
            cache = p.decoding.new_cache(layer, B, N)
            rows = []
            for start, end in zip([0, *ends], ends, strict=False):
                mask = real[:, None, None, start:end] if start < 6 else None
                rows.append(p.decoding.decode(layer, x[:, start:end], cache, attn_mask=mask))
            close(torch.cat(rows, dim=1)[:, 6:], together[:, 6:])


def _bounded(p):
    """A layer, and caches that overwrite: windows of four tokens, and two sinks with a window of three."""
    torch.manual_seed(0)
    layer = module(p, "window").SlidingWindowAttention(WIDTH, 3, (3, 0)).double()
    yield layer, partial(module(p, "rolling").RollingKVCache.of, layer, B, 3)
    layer = p.layers.MultiHeadAttention(WIDTH, 3).double()
    yield layer, partial(module(p, "streaming").SinkCache.of, layer, B, 2, 3)


def a_draft_in_a_bounded_cache_is_taken_back(p):
    """Some tokens of the last call, all of it, or nothing; then other tokens, as if the draft had never been."""
    x, other = draw((B, N, WIDTH), (B, N, WIDTH))
    for layer, make in _bounded(p):
        for before, drafted, kept in (
            (5, 3, 0),
            (5, 3, 1),
            (5, 3, 2),
            (5, 3, 3),
            (0, 3, 2),
            (4, 1, 0),
            (8, 4, 0),
            (5, 7, 0),
        ):
            cache, fresh = make(), make()
            start = torch.cat([x[:, :before], other[:, :kept]], dim=1)
            for c in (cache, fresh):
                if before:
                    p.decoding.decode(layer, start[:, :before], c)
            if kept:
                p.decoding.decode(layer, start[:, before:], fresh)
            p.decoding.decode(layer, other[:, :drafted], cache)
            cache.crop(before + kept)
            assert cache.length == fresh.length == before + kept
            rest = x[:, before + kept :]
            for size in (1, len(rest[0])):
                close(
                    p.decoding.decode(layer, rest[:, :size], cache),
                    p.decoding.decode(layer, rest[:, :size], fresh),
                )
                rest = rest[:, size:]
                if not rest.size(1):
                    break


def what_a_bounded_cache_no_longer_has_cannot_come_back(p):
    (x,) = draw((B, N, WIDTH))
    for layer, make in _bounded(p):
        cache = make()
        p.decoding.decode(layer, x[:, :5], cache)
        p.decoding.decode(layer, x[:, 5:], cache)
        for length in (4, N + 1, -1):
            with pytest.raises(ValueError, match=f"length must be 5 to {N}, .*; got {length}"):
                cache.crop(length)
        assert cache.length == N
    cache = module(p, "rolling").RollingKVCache.of(next(_bounded(p))[0], B, 3)
    p.decoding.decode(next(_bounded(p))[0], x, cache)
    with pytest.raises(ValueError, match=f"0 to {N}, .*; got 6"):  # token 5 has gone with the call
        cache.crop(6)


def beams_of_a_bounded_cache_go_on(p):
    (x,) = draw((B, N, WIDTH))
    rows = torch.tensor([1, 0, 1])
    for layer, make in _bounded(p):
        cache, whole = make(), make()
        p.decoding.decode(layer, x[:, :7], cache)
        cache.reorder(rows)
        full = decoded(p, layer, x, whole, [7, N - 7])[rows]
        close(decoded(p, layer, x[rows, 7:], cache, [1, 2, 3]), full[:, 7:])


def a_rolling_cache_keeps_the_last_tokens(p):
    cache = module(p, "rolling").RollingKVCache(2, 3, 3, 7, value_dim=4, dtype=torch.float64)
    k, v = draw((2, 3, N, 7), (2, 3, N, 4))
    k.requires_grad_()
    assert cache.nbytes == 2 * 3 * 4 * (7 + 4) * 8
    for start, end in ((0, 1), (1, 3), (3, 4), (4, 5), (5, 12), (12, 13)):
        assert cache.positions(end - start).tolist() == list(range(start, end))
        keys, values = cache.append(k[:, :, start:end], v[:, :, start:end])
        kept = list(range(max(0, end - 4), end))
        close(cache.in_order(), (k[:, :, kept], v[:, :, kept]), atol=0.0)
        at = sorted(kept, key=lambda position: position % 4)
        close((keys, values), (k[:, :, at], v[:, :, at]), atol=0.0)
        assert (keys.data_ptr(), keys.requires_grad) == (cache.key.data_ptr(), False)
    said = "the last 4 of 13 tokens in 4 slots, batch 2, 3 key/value heads of width 7"
    assert repr(cache) == f"RollingKVCache({said})"


def a_step_behind_a_rolling_cache_copies_nothing(p):
    cache = module(p, "rolling").RollingKVCache(1, 2, 511, 16)
    cache.length = 5000
    cache.key.zero_(), cache.value.zero_()
    new = torch.randn(1, 2, 1, 16)
    assert largest_tensor(cache.attend, torch.randn(1, 8, 1, 16), new, new) <= cache.key.nbytes


def messages_about_rolling_caches_say_what_to_do(p):
    rolling, x = module(p, "rolling"), torch.zeros(1, 1, 8)
    layer = module(p, "window").SlidingWindowAttention(8, 2, (4, 4))
    cache = rolling.RollingKVCache(1, 2, 4, 4)
    refused(
        ValueError,
        ("window counts .* 0 or more; got -1", lambda: rolling.RollingKVCache(1, 2, -1, 4)),
        (r"needs a RollingKVCache with window=4; got KVCache\(", lambda: p.decoding.decode(layer, x, p.cache.KVCache(1, 2, 9, 4))),
        ("window=4; got RollingKVCache", lambda: p.decoding.decode(layer, x, rolling.RollingKVCache(1, 2, 3, 4))),
        (r"must be \(1, 2, 1, 4\)", lambda: cache.append(*[torch.zeros(1, 1, 1, 4)] * 2)),
    )  # fmt: skip
    assert cache.length == 0
