"""What must hold for windows, beyond the contracts: many blocks, any lengths, linear memory, and messages."""

from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse import spec_sparse
from support.cases import draw
from support.cases_window import window_of
from support.claims import claim
from support.contracts import close, largest_tensor


@claim
def windows_equal_their_loops(p):
    for left, right in ((0, 0), (2, 0), (0, 3), (1, 2), (9, 9)):
        ours = p.masks.dense(p.masks.sliding_window(left, right), 1, 1, 5, 7)[0, 0]
        assert ours.equal(spec_sparse.sliding_window(5, 7, left, right))
        for step in (1, 2, 3):
            ours = p.masks.dense(p.masks.dilated(left, right, step), 1, 1, 5, 7)[0, 0]
            assert ours.equal(spec_sparse.dilated(5, 7, left, right, step))
    assert p.masks.dilated(2, 1, 3).__name__ == "dilated(left=2, right=1, step=3)"
    assert [bool(p.masks.sliding_window(1, 0)(0, 0, 4, j)) for j in (2, 3, 4, 5)] == [0, 1, 1, 0]


def with_gradients(run, *inputs):
    """The output, and the gradients of all inputs for a loss that is not linear."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = run(*leaves)
    return output, *torch.autograd.grad(output.sin().sum(), leaves)


@claim
def blocks_of_a_window_equal_the_mask(p):
    """Blocks of two queries, so that there are many of them; any lengths, also where nobody is in sight."""
    window = window_of(p)
    shared = {"enable_gqa": True, "scale": 0.7}
    with mock.patch.object(window, "ROWS", 2):
        for n, m in ((7, 7), (9, 4), (3, 8), (0, 3), (3, 0)):
            inputs = draw((2, 4, n, 3), (2, 2, m, 3), (2, 2, m, 5))
            for left, right, offset in ((0, 0, 0), (3, 0, 0), (1, 2, m - n), (0, 9, -3), (2, 1, 5)):
                visible = spec_sparse.sliding_window(n, m, left, right, offset).view(n, m).bool()
                ours = with_gradients(
                    lambda *x, size=(left, right), offset=offset: window.sliding_window_attention(
                        *x, size, offset=offset, **shared
                    ),
                    *inputs,
                )
                theirs = with_gradients(
                    lambda *x, visible=visible: F.scaled_dot_product_attention(
                        *x, visible, **shared
                    ),
                    *inputs,
                )
                close(ours, theirs)


class AllTensors(TorchDispatchMode):
    """Counts the numbers of all tensors that operations returned, those of the backward pass, too."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            self.numbers += x.numel() if isinstance(x, torch.Tensor) else 0
        return result


@claim
def the_work_in_a_window_grows_with_the_length(p):
    """Forward and backward: twice the length makes twice the numbers. Slices would make four times as many."""

    def numbers(n: int) -> int:
        inputs = [torch.randn(1, 1, n, 4) for _ in range(3)]
        with AllTensors() as made:
            with_gradients(lambda *x: window_of(p).sliding_window_attention(*x, (16, 16)), *inputs)
        return made.numbers

    assert numbers(2048) < 2.1 * numbers(1024)


@claim
def a_layer_with_a_window_counts_as_it_says(p):
    layer = window_of(p).SlidingWindowAttention
    for size, seen in ((1, 1), (2, 3), (5, 5), (16, 17), ((3, 0), 4), ((0, 0), 1)):
        _, weights = layer(8, 2, size)(torch.randn(1, 41, 8), need_weights=True)
        assert (weights[0, 0, 20] > 0).sum() == seen
        _, weights = layer(8, 2, size)(torch.randn(1, 41, 8), need_weights=True, is_causal=True)
        left = seen // 2 if isinstance(size, int) else size[0]
        assert (weights[0, 0, 20] > 0).sum() == left + 1
        assert not weights.triu(1).any()
    assert "num_heads=2" in repr(layer(8, 2, 5))
    assert "window_size=(2, 2)" in repr(layer(8, 2, 5))


@claim
def a_layer_with_a_window_takes_masks_that_are_added(p):
    (x,) = draw((2, 9, 8))
    layer = window_of(p).SlidingWindowAttention(8, 2, (3, 1)).double()
    visible = torch.rand(9, 9, generator=torch.Generator().manual_seed(0)) > 0.5
    added = torch.zeros(9, 9).double().masked_fill(~visible, -torch.inf)
    close(layer(x, attn_mask=added), layer(x, attn_mask=visible))
    close(layer(x, attn_mask=torch.ones(9, 9).double()), layer(x))


@claim
def dropout_in_a_window_needs_no_table(p):
    layer = window_of(p).SlidingWindowAttention(8, 2, 16, dropout=0.5)
    x = torch.randn(1, 512, 8)
    assert largest_tensor(layer, x) < 512 * 512
    assert not layer(x).equal(layer(x))
    assert layer.eval()(x).equal(layer(x))


@claim
def messages_about_windows_say_what_to_do(p):
    window, x = window_of(p), torch.zeros(1, 2, 3, 4)
    for call, message in (
        (lambda: p.masks.sliding_window(-1, 2), r"0 or more; got -1 and 2\. .* use \(w - 1, 0\)"),
        (lambda: p.masks.dilated(2, 1, 0), "step is a distance between keys and must be 1 or more; got 0"),
        (lambda: window.sliding_window_attention(x, x, x, (-1, 0)), "0 or more; got -1 and 0"),
        (lambda: window.SlidingWindowAttention(8, 2, (0, -1)), "0 or more; got 0 and -1"),
        (lambda: window.sliding_window_attention(x, x[:, :1], x[:, :1], (1, 0)), "set enable_gqa=True"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
    layer = window.SlidingWindowAttention(8, 2, 4)
    with pytest.raises(TypeError, match="attn_mask must be bool"):
        layer(torch.zeros(1, 3, 8), attn_mask=torch.ones(3, 3, dtype=torch.int64))
