"""What must hold for windows, beyond the contracts: many blocks, any lengths, linear memory, and messages."""

from functools import partial
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module
from support.cases.oracles import flex
from support.cases.window import ends_hidden
from support.claims import refused
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
        for n, m in ((7, 7), (9, 4), (3, 8), (1, 9)):
            inputs = [x.requires_grad_() for x in draw((2, 4, n, 3), (2, 2, m, 3), (2, 2, m, 5))]
            for left, right, offset in ((0, 0, 0), (3, 0, 0), (1, 2, m - n), (0, 9, -3), (2, 1, 5)):
                visible = spec.sliding_window(n, m, left, right, offset)
                options = {"window_size": (left, right), "offset": offset, **shared}
                for present in (None, ends_hidden(2, m), ends_hidden(2, m)[0]):
                    ours = window.sliding_window_attention(*inputs, **options, key_mask=present)
                    mask = visible if present is None else visible & _axes(present)
                    theirs = F.scaled_dot_product_attention(*inputs, mask, **shared)
                    same(ours, theirs, inputs)


def _axes(present):
    """(b, m) or (m) as a mask of pairs."""
    return present.view(-1, 1, 1, present.size(-1))


def gaps_of_any_width_equal_the_mask(p):
    """Several sequences interleaved, in blocks of two: also where a query stands before all keys, or behind them."""
    attend = module(p, "dilated").dilated_attention
    with mock.patch.object(module(p, "window"), "ROWS", 2):
        for n, m, step in ((7, 7, 2), (9, 4, 3), (3, 8, 5), (1, 9, 2), (2, 1, 3)):
            inputs = [x.requires_grad_() for x in draw((2, 4, n, 3), (2, 2, m, 3), (2, 2, m, 5))]
            for left, right, offset in ((3, 0, 0), (1, 2, m - n), (0, 9, -3), (2, 1, 5)):
                i, j = torch.arange(n)[:, None] + offset, torch.arange(m)
                visible = (j >= i - left * step) & (j <= i + right * step) & ((j - i) % step == 0)
                visible = visible & _axes(ends_hidden(2, m))
                options = {"offset": offset, "enable_gqa": True, "key_mask": ends_hidden(2, m)}
                ours = attend(*inputs, (left, right), step, scale=0.7, **options)
                shared = {"enable_gqa": True, "scale": 0.7}
                same(ours, F.scaled_dot_product_attention(*inputs, visible, **shared), inputs)


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


def _windowed(p, **options):
    """A layer with a window, and one with gaps in it."""
    torch.manual_seed(0)
    yield module(p, "window").SlidingWindowAttention(8, 2, (6, 4), **options)
    yield module(p, "dilated").DilatedAttention(8, 2, (3, 2), 2, **options)


def dropout_in_a_window_needs_no_table(p):
    x = torch.randn(1, 512, 8)
    for layer in _windowed(p, dropout=0.5):
        assert largest_tensor(layer, x) < 512 * 512
        assert not layer(x).equal(layer(x))
        assert layer.eval()(x).equal(layer(x))


def padding_in_a_window_needs_no_table(p):
    """A mask of padding gives what the same mask gives for every pair; only the second makes a table."""
    x, n = torch.randn(2, 512, 8), 512
    present = ends_hidden(2, n)[:, None, None]
    for layer in _windowed(p, num_kv_heads=1):
        for options in ({}, {"is_causal": True}):
            padded = partial(layer, attn_mask=present, **options)
            pairs = layer(x, attn_mask=present.expand(-1, 2, n, -1), **options)
            close(padded(x), pairs, atol=1e-6)
            close(padded(x, need_weights=True)[0], pairs, atol=1e-6)
            assert largest_tensor(padded, x) < n * n
            alone = layer(x[:1, n // 3 :], **options)
            close(padded(x)[:1, n // 3 :], alone, atol=1e-6)
        of_all = layer(x, attn_mask=present[0, 0])
        close(of_all, layer(x, attn_mask=present[:1].expand(2, -1, -1, -1)), atol=1e-6)
        of_heads = torch.stack([present[0, 0], present[1, 0]])[
            None
        ]  # each head its own: no padding
        close(
            layer(x, attn_mask=of_heads), layer(x, attn_mask=of_heads.expand(2, 2, n, n)), atol=1e-6
        )


def whole_numbers_of_any_kind_are_taken(p):
    window, dilated, rolling = (module(p, name) for name in ("window", "dilated", "rolling"))
    four, (x,) = np.int64(4), draw((1, 1, 9, 4))
    layer = window.SlidingWindowAttention(8, 2, four)
    assert layer.window_size == (2, 2)
    assert type(layer.window_size[0]) is int
    assert window.SlidingWindowAttention(8, 2, [four, 1]).window_size == (4, 1)
    assert dilated.DilatedAttention(8, 2, four, np.int64(3)).step == 3
    assert rolling.RollingKVCache(1, 2, four, 4).max_length == 5
    assert p.masks.sliding_window(four, 0).__name__
    close(
        window.sliding_window_attention(x, x, x, (four, 0)),
        window.sliding_window_attention(x, x, x, (4, 0)),
    )
    said = "must be a whole number; got 2.5. Round it"
    refused(
        TypeError,
        ("window_size " + said, lambda: window.SlidingWindowAttention(8, 2, 2.5)),
        ("left " + said, lambda: window.SlidingWindowAttention(8, 2, (2.5, 1))),
        ("right " + said, lambda: window.sliding_window_attention(x, x, x, (1, 2.5))),
        ("left " + said, lambda: p.masks.sliding_window(2.5, 1)),
        ("step " + said, lambda: p.masks.dilated(2, 1, 2.5)),
        ("step " + said, lambda: dilated.DilatedAttention(8, 2, 4, 2.5)),
        ("step " + said, lambda: dilated.dilated_attention(x, x, x, (1, 1), 2.5)),
        ("window " + said, lambda: rolling.RollingKVCache(1, 2, 2.5, 4)),
    )  # fmt: skip


def messages_about_windows_say_what_to_do(p):
    window, x = module(p, "window"), torch.zeros(1, 2, 3, 4)
    layer, attend = window.SlidingWindowAttention(8, 2, 4), window.sliding_window_attention
    gaps, there = module(p, "dilated").dilated_attention, torch.ones(1, 3, dtype=torch.bool)
    three = torch.zeros(1, 3, 8)
    refused(
        ValueError,
        (r"0 or more; got -1 and 2\. .* use \(w - 1, 0\)", lambda: p.masks.sliding_window(-1, 2)),
        ("step is a distance between keys and .* 1 or more; got 0", lambda: p.masks.dilated(2, 1, 0)),
        ("step is a distance .* got 0", lambda: gaps(x, x, x, (1, 1), 0)),
        ("step is a distance .* got 0", lambda: module(p, "dilated").DilatedAttention(8, 2, 4, 0)),
        ("0 or more; got -1 and 0", lambda: attend(x, x, x, (-1, 0))),
        ("0 or more; got 0 and -1", lambda: window.SlidingWindowAttention(8, 2, (0, -1))),
        ("set enable_gqa=True", lambda: attend(x, x[:, :1], x[:, :1], (1, 0))),
        ("same length .* got query", lambda: attend(x, x, x[:, :, :2], (1, 0))),
        ("same length .* got query", lambda: gaps(x, x, x[:, :, :2], (1, 0), 2)),
        ("one token or more", lambda: attend(x[:, :, :0], x, x, (1, 0))),
        ("one token or more", lambda: attend(x, x[:, :, :0], x[:, :, :0], (1, 0))),
        ("one token or more", lambda: layer(three[:, :0])),
        ("SlidingWindowAttention takes no key and no value", lambda: layer(three, torch.ones(1, 3, 8))),
        (r"\(batch, keys\) = \(1, 3\); got torch.bool of shape \(1, 2\)", lambda: attend(x, x, x, (1, 0), key_mask=there[:, :2])),
        (r"got torch.bool of shape \(2, 3\)", lambda: attend(x, x, x, (1, 0), key_mask=there.expand(2, 3))),
        (r"got torch.bool of shape \(1, 3, 3\)", lambda: attend(x, x, x, (1, 0), key_mask=there.expand(1, 3, 3))),
        ("must be bool, .* got torch.int64", lambda: attend(x, x, x, (1, 0), key_mask=there.long())),
    )  # fmt: skip
    refused(
        TypeError,
        (r"a pair \(left, right\); got 4\. .* use \(w - 1, 0\)", lambda: attend(x, x, x, 4)),
        (r"a pair \(left, right\); got \(1, 2, 3\)", lambda: window.SlidingWindowAttention(8, 2, (1, 2, 3))),
        ("attn_mask must be bool", lambda: layer(three, attn_mask=torch.ones(3, 3).long())),
    )  # fmt: skip
