"""What must hold of chunks: any of them, any cut and any block give the same; traced, there is no loop over them."""

from contextlib import ExitStack
from functools import partial
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse import spec
from support.cases import draw, module
from support.contracts import close, gradients, largest_tensor


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
        _, before = attend(q[:, :, :1], k[:, :, :7], v[:, :, :7], return_state=True)
        close(before, state)
        wanted = spec.linear_attention(q, k, v, **options)[0]
        close(attend(q, k[:, :, 7:], v[:, :, 7:], state=before), wanted)


def no_tensor_grows_with_the_square(p):
    """Not with n^2 and not with n d^2: the largest has a row of chunk numbers a token, or d^2 numbers a chunk."""
    linear = module(p, "linear")
    for n in (512, 1024):
        q, k, v = draw((1, 1, n, 32), (1, 1, n, 32), (1, 1, n, 32))
        needed = largest_tensor(partial(linear.linear_attention, is_causal=True), q, k, v)
        assert needed <= 8 * n * 64, needed


def long_texts_are_read_in_blocks(p):
    """Blocks of any length, cut or whole, give the same outputs, states and gradients; no features of a whole text are made."""
    attend, chunks = module(p, "linear").linear_attention, module(p, "chunks")
    inputs = [x.requires_grad_() for x in draw((2, 4, 23, 3), (2, 2, 23, 3), (2, 2, 23, 5))]
    options = {"return_state": True, "key_mask": torch.arange(23).expand(2, 23) > 1, "chunk": 3}
    for is_causal in (False, True):
        call = partial(attend, *inputs, is_causal=is_causal, **options)
        wanted = call()
        with (
            mock.patch.object(chunks, "BLOCK", 8),
            mock.patch("torch.compiler.is_compiling", return_value=False),
        ):
            found = call()
        close(found, wanted)
        close(gradients(found, inputs), gradients(wanted, inputs))
    long = draw((1, 1, 4096, 4), (1, 1, 4096, 4), (1, 1, 4096, 4))
    wide = partial(attend, feature_map=lambda x: x.repeat_interleave(8, -1).relu())
    for is_causal in (False, True):
        assert largest_tensor(partial(wide, is_causal=is_causal), *long) < 8 * 4096 * 32


def what_is_traced_is_the_same(p):
    """What a compiler and an exporter see computes the same outputs, states and gradients, for any length."""
    attend = module(p, "linear").linear_attention
    for n in (1, 5, 8, 11):
        inputs = [x.requires_grad_() for x in draw((2, 4, n, 3), (2, 2, n, 3), (2, 2, n, 5))]
        call = partial(attend, *inputs, is_causal=True, return_state=True, chunk=4)
        wanted = call()
        for names in (("is_compiling",), ("is_compiling", "is_exporting")):
            with ExitStack() as traced:
                for name in names:
                    traced.enter_context(mock.patch(f"torch.compiler.{name}", return_value=True))
                found = call()
            close(found, wanted)
            close(gradients(found, inputs), gradients(wanted, inputs))


def all_chunks_are_read_at_once(p):
    """Four times as many chunks are no more operations, traced; and no more than a sum for each, otherwise."""
    attend = module(p, "linear").linear_attention
    for compiling, most in ((True, 0), (False, 2 * 24)):
        with mock.patch("torch.compiler.is_compiling", return_value=compiling):
            few, many = (
                operations(partial(attend, *draw(*[(1, 1, n, 4)] * 3), is_causal=True, chunk=4))
                for n in (32, 128)
            )
        assert many - few <= most, (few, many)


class Counted(TorchDispatchMode):
    """Counts operations, views among them."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def operations(call) -> int:
    with Counted() as seen, torch.no_grad():
        call()
    return seen.count
