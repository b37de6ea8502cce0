"""What must hold at the edges of every function and layer: dtypes, empty and unequal sequences, strides, tracing.

Like contracts, edges are functions that raise AssertionError, or return `UNDEFINED`. They take what makes a subject. Where
one cannot, ``WHY`` has the reason, and then it really must not: a reason that is out of date is noticed.
"""

import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from support.contracts import UNDEFINED, close, gradients
from support.subjects import Function, N, Subject, cached_attention

EDGES: dict[str, Callable] = {}
BLOCKS = "the loop over blocks is unrolled, so a graph is for as many of them as its example has"
CHUNKS = "the loop over chunks is unrolled, so a graph is for as many of them as its example has"
ANY = "exported for any length"
WHY = {
    ('"sliding_window"', ANY): BLOCKS,
    ('"dilated"', ANY): BLOCKS,
    ('"longformer"', ANY): BLOCKS,
    ('"bigbird"', ANY): BLOCKS,
    (
        "flash_attention",
        ANY,
    ): "the loop over tiles is unrolled, so a graph is for as many of them as its example has",
    ("gated_linear_attention", ANY): CHUNKS,
    ('"gated_linear"', ANY): CHUNKS,
    ('"delta"', ANY): CHUNKS,
    ('"gated_delta"', ANY): CHUNKS,
}


def edge(title: str):
    def register(check):
        EDGES[title] = check
        return check

    return register


def in_half(subject: Subject, dtype: torch.dtype, most: float) -> None:
    rounded = [x.to(dtype) if x.is_floating_point() else x for x in subject.inputs(N)]
    subject.call.to(dtype)
    output = subject.call(*rounded)
    assert output.dtype == dtype
    subject.call.double()
    exact = subject.call(*(x.double() if x.is_floating_point() else x for x in rounded))
    error = (output.double() - exact).norm() / exact.norm()
    assert error < most, f"relative error {error:.1e}"


@edge("float16")
def in_float16(make):
    in_half(make(), torch.float16, 4e-3)


@edge("bfloat16")
def in_bfloat16(make):
    in_half(make(), torch.bfloat16, 3e-2)


@edge("autocast")
def under_autocast(make):
    subject = make()
    subject.call.float()
    inputs = [x.float() if x.is_floating_point() else x for x in subject.inputs(N)]
    expected = subject.call(*inputs)
    with torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("error")
        output = subject.call(*inputs).float()
    assert (output - expected).norm() / expected.norm() < 3e-2


@edge("no token refused, no sample taken")
def empty(make):
    subject = make()
    inputs = subject.inputs(N)
    with pytest.raises(ValueError, match="one token or more; got"):
        subject.call(*subject.inputs(0))
    assert subject.call(*(x[:0] for x in inputs)).shape == subject.call(*inputs)[:0].shape


@edge("unequal lengths refused")
def unequal(make):
    subject = make()
    inputs = subject.inputs(N)
    if len(inputs) < 3:
        wrong = [partial(subject.call, *inputs, key=inputs[0][:, :3], value=inputs[0][:, :4])]
    else:
        q, k, v, *rest = inputs
        wrong = [
            partial(subject.call, q, k, v[:, :, :3], *rest),
            partial(subject.call, q, k[:1], v[:1], *rest),
        ]
        if subject.cross:
            subject.call(q[:, :, :7], k, v, *rest)
        elif subject.call.function is not cached_attention:
            wrong.append(partial(subject.call, q[:, :, :7], k, v, *rest))
    for call in wrong:
        with pytest.raises(ValueError, match="got"):
            call()


@edge("any strides")
def strided(make):
    subject = make()
    inputs = subject.inputs(N)
    apart = [x.mT.contiguous().mT if x.is_floating_point() else x for x in inputs]
    wide = [torch.stack([x, x], -1)[..., 0] for x in inputs]
    assert not any(x.is_contiguous() for x in wide)
    for given in (apart, wide):
        close(subject.call(*given), subject.call(*inputs))


@edge("compiled in one graph")
def compiled(make):
    torch.compiler.reset()
    subject = make()
    if subject.by_layer:
        return UNDEFINED
    inputs = [x.requires_grad_() if x.is_floating_point() else x for x in subject.inputs(N)]
    learned = [x for x in inputs if x.requires_grad]
    one_graph = torch.compile(subject.call, backend="aot_eager", fullgraph=True)
    with (
        warnings.catch_warnings()
    ):  # torch says that of what it does itself with a function that has its own gradient
        warnings.filterwarnings("ignore", ".*autograd.function.Function.*", DeprecationWarning)
        output, expected = one_graph(*inputs), subject.call(*inputs)
    close(output, expected)
    close(gradients([output], learned), gradients([expected], learned), atol=1e-11)
    return None


@edge("exported for any length")
def exported(make):
    subject = make()
    if subject.by_layer:
        return UNDEFINED
    inputs = tuple(subject.inputs(N))
    dynamic = tuple(
        {1 if x.dim() < 4 and len(inputs) == 1 or x.dim() == 2 else 2: torch.export.Dim.DYNAMIC}
        for x in inputs
    )
    program = torch.export.export(
        subject.call, inputs, dynamic_shapes=_shapes(subject.call, dynamic)
    )
    longer = subject.inputs(10 * N)  # than any chunk
    close(program.module()(*longer), subject.call(*longer))
    return None


def _shapes(call: nn.Module, dynamic: tuple):
    """As `torch.export` wants them for what is handed over as ``*inputs``."""
    return (dynamic,) if isinstance(call, Function) else dynamic


@edge("vmap")
def mapped(make):
    subject = make()
    if subject.by_layer:
        return UNDEFINED
    several = [torch.stack([x, x.flip(0)]) for x in subject.inputs(N)]
    with (
        warnings.catch_warnings()
    ):  # torch's fused function is looped over, and torch says that this is slow
        warnings.filterwarnings("ignore", "There is a performance drop")
        found = torch.vmap(subject.call)(*several)
    for k, output in enumerate(found):
        close(output, subject.call(*(x[k] for x in several)))
    return None
