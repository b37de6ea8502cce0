"""What must hold for windows, beyond the contracts: many blocks, any lengths, linear memory, and messages."""

from functools import partial
from unittest import mock

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module
from support.cases.oracles import flex
from support.claims import decoded, refused
from support.contracts import Tensors, close, largest_tensor, same


def windows_equal_their_loops(p):
    for left, right in ((0, 0), (2, 0), (0, 3), (1, 2), (9, 9)):
        ours = p.masks.dense(p.masks.sliding_window(left, right), 1, 1, 5, 7)[0, 0]
        assert ours.equal(spec.sliding_window(5, 7, left, right))
        for step in (1, 2, 3):
            ours = p.masks.dense(p.masks.dilated(left, right, step), 1, 1, 5, 7)[0, 0]
            assert ours.equal(spec.dilated(5, 7, left, right, step))
    assert p.masks.dilated(2, 1, 3).__name__ == "dilated(left=2, right=1, step=3)"
    assert [bool(p.masks.sliding_window(1, 0)(0, 0, 4, j)) for j in (2, 3, 4, 5)] == [0, 1, 1, 0]


def numbers_made(run, *inputs) -> int:
    """How many numbers all tensors hold that are made there and back."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    with Tensors() as made:
        torch.autograd.grad(run(*leaves).sin().sum(), leaves)
    return made.numbers


def blocks_of_a_window_equal_the_mask(p):
    """Blocks of two queries, so that there are many of them; any lengths, also where nobody is in sight."""
    window = module(p, "window")
    shared = {"enable_gqa": True, "scale": 0.7}
    with mock.patch.object(window, "ROWS", 2):
        for n, m in ((7, 7), (9, 4), (3, 8), (0, 3), (3, 0)):
            inputs = [x.requires_grad_() for x in draw((2, 4, n, 3), (2, 2, m, 3), (2, 2, m, 5))]
            for left, right, offset in ((0, 0, 0), (3, 0, 0), (1, 2, m - n), (0, 9, -3), (2, 1, 5)):
                visible = spec.sliding_window(n, m, left, right, offset).view(n, m).bool()
                options = {"window_size": (left, right), "offset": offset, **shared}
                ours = window.sliding_window_attention(*inputs, **options)
                theirs = F.scaled_dot_product_attention(*inputs, visible, **shared)
                same(ours, theirs, inputs)


def blocks_of_a_window_equal_flex_attention(p):
    """At the real size of a block, three of them."""
    q, k, v = draw((1, 2, 150, 4), (1, 2, 150, 4), (1, 2, 150, 4))
    for left, right in ((70, 0), (5, 3)):
        theirs = flex(q, k, v, mask_mod=p.masks.sliding_window(left, right))
        close(module(p, "window").sliding_window_attention(q, k, v, (left, right)), theirs)


def the_work_in_a_window_grows_with_the_length(p):
    """Forward and backward: twice the length makes twice the numbers. Slices would make four times as many."""

    def numbers(n: int) -> int:
        inputs = [torch.randn(1, 1, n, 4) for _ in range(3)]
        attend = partial(module(p, "window").sliding_window_attention, window_size=(16, 16))
        return numbers_made(attend, *inputs)

    assert numbers(2048) < 2.1 * numbers(1024)


def a_layer_with_a_window_counts_as_it_says(p):
    layer = module(p, "window").SlidingWindowAttention
    for size, seen in ((1, 1), (2, 3), (5, 5), (16, 17), ((3, 0), 4), ((0, 0), 1)):
        _, weights = layer(8, 2, size)(torch.randn(1, 41, 8), need_weights=True)
        assert (weights[0, 0, 20] > 0).sum() == seen
        _, weights = layer(8, 2, size)(torch.randn(1, 41, 8), need_weights=True, is_causal=True)
        left = seen // 2 if isinstance(size, int) else size[0]
        assert (weights[0, 0, 20] > 0).sum() == left + 1
        assert not weights.triu(1).any()
    assert "num_heads=2" in repr(layer(8, 2, 5))
    assert "window_size=(2, 2)" in repr(layer(8, 2, 5))


def a_layer_with_a_window_takes_masks_that_are_added(p):
    (x,) = draw((2, 9, 8))
    layer = module(p, "window").SlidingWindowAttention(8, 2, (3, 1)).double()
    visible = torch.rand(9, 9, generator=torch.Generator().manual_seed(0)) > 0.5
    added = torch.zeros(9, 9).double().masked_fill(~visible, -torch.inf)
    close(layer(x, attn_mask=added), layer(x, attn_mask=visible))
    close(layer(x, attn_mask=torch.ones(9, 9).double()), layer(x))


def dropout_in_a_window_needs_no_table(p):
    layer = module(p, "window").SlidingWindowAttention(8, 2, 16, dropout=0.5)
    x = torch.randn(1, 512, 8)
    assert largest_tensor(layer, x) < 512 * 512
    assert not layer(x).equal(layer(x))
    assert layer.eval()(x).equal(layer(x))


def messages_about_windows_say_what_to_do(p):
    window, x = module(p, "window"), torch.zeros(1, 2, 3, 4)
    layer, attend = window.SlidingWindowAttention(8, 2, 4), window.sliding_window_attention
    refused(
        ValueError,
        (r"0 or more; got -1 and 2\. .* use \(w - 1, 0\)", lambda: p.masks.sliding_window(-1, 2)),
        ("step is a distance between keys and .* 1 or more; got 0", lambda: p.masks.dilated(2, 1, 0)),
        ("0 or more; got -1 and 0", lambda: attend(x, x, x, (-1, 0))),
        ("0 or more; got 0 and -1", lambda: window.SlidingWindowAttention(8, 2, (0, -1))),
        ("set enable_gqa=True", lambda: attend(x, x[:, :1], x[:, :1], (1, 0))),
    )  # fmt: skip
    refused(
        TypeError,
        (r"a pair \(left, right\); got 4\. .* use \(w - 1, 0\)", lambda: attend(x, x, x, 4)),
        ("attn_mask must be bool", lambda: layer(torch.zeros(1, 3, 8), attn_mask=torch.ones(3, 3).long())),
    )  # fmt: skip


B, N, WIDTH = 2, 13, 24


def decoding_behind_a_rolling_cache_is_the_full_pass_with_the_window(p):
    """In chunks of any length, also longer than the window; with shared key heads, with and without rotation."""
    (x,) = draw((B, N, WIDTH))
    layer = module(p, "window").SlidingWindowAttention(WIDTH, 6, (3, 1), num_kv_heads=2).double()
    for use_rotary in (False, True):
        positions = torch.arange(N) if use_rotary else None
        full = layer(x, is_causal=True, positions=positions)
        for sizes in ([1] * N, [2] * 6 + [1], [3, 1, 1, 4, 4], [4, 0, 9], [5, 1, 7], [N], [1, 12]):
            cache = module(p, "rolling").RollingKVCache.of(layer, B, 3)
            close(decoded(p, layer, x, cache, sizes, use_rotary=use_rotary), full)
            assert cache.length == N
            assert cache.key.shape == (B, 2, 4, WIDTH // 6)


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
        (r"needs a RollingKVCache with window=4; got KVCache\(", lambda: p.cache.decode(layer, x, p.cache.KVCache(1, 2, 9, 4))),
        ("window=4; got RollingKVCache", lambda: p.cache.decode(layer, x, rolling.RollingKVCache(1, 2, 3, 4))),
        (r"must be \(1, 2, 1, 4\)", lambda: cache.append(*[torch.zeros(1, 1, 1, 4)] * 2)),
    )  # fmt: skip
    assert cache.length == 0
