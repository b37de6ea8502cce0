"""Gluon's names, as `gluon_cpu` understands them, and `gluon_forward` loaded with them in Gluon's place."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import torch
import triton  # noqa: F401 (before its parts are replaced)

from gpu import gluon_cpu as cpu

PATH = Path(__file__).with_name("gluon_forward.py")
GLUON = "triton.experimental.gluon"


def of_tensors(function, plain):
    """torch's function where a tensor is among the arguments, Python's where all are numbers."""

    def call(*args):
        like = next((x for x in args if isinstance(x, torch.Tensor)), None)
        if like is None:
            return plain(*args)
        return cpu.wrap(function(*(torch.as_tensor(x, dtype=like.dtype) for x in args)))

    return call


def where(condition, a, b):
    a, b = (x if isinstance(x, torch.Tensor) else torch.tensor(float(x)) for x in (a, b))
    return cpu.wrap(torch.where(condition, a, b))


def allocate(dtype, shape, layout):
    """Shared memory, full of NaN; numbers of 64 bits are barriers."""
    if dtype == torch.int64:
        return cpu.Barriers(shape[0])
    return cpu.Memory(torch.full([int(size) for size in shape], float("nan"), dtype=dtype))


def jit(function=None, **options):
    return cpu.Kernel(function) if function else cpu.Kernel


def nothing(*args, **options):
    """Layouts say which thread holds which number; here one thread holds all."""


LANGUAGE = {
    "constexpr": lambda x: x,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "NVMMADistributedLayout": nothing,
    "SliceLayout": nothing,
    "DotOperandLayout": nothing,
    "NVMMASharedLayout": SimpleNamespace(get_default_for=nothing),
    "program_id": lambda axis: cpu.LOCAL.program,
    "num_programs": lambda axis: cpu.LOCAL.programs,
    "static_range": range,
    "cdiv": lambda a, b: -(-int(a) // int(b)),
    "minimum": of_tensors(torch.minimum, min),
    "maximum": of_tensors(torch.maximum, max),
    "where": where,
    "arange": lambda start, end, layout: cpu.Tensor(torch.arange(start, end)),
    "zeros": lambda shape, dtype, layout: cpu.Tensor(torch.zeros(list(shape), dtype=dtype)),
    "full": lambda shape, value, dtype, layout: cpu.Tensor(torch.full(list(shape), value, dtype=dtype)),
    "exp2": lambda x: cpu.wrap(torch.exp2(x)),
    "log2": lambda x: cpu.wrap(torch.log2(x)),
    "max": lambda x, axis: cpu.wrap(torch.amax(x, axis)),
    "sum": lambda x, axis: cpu.wrap(torch.sum(x, axis)),
    "cast": lambda x, dtype: x,
    "convert_layout": lambda x, layout: x,
    "store": cpu.store,
    "allocate_shared_memory": allocate,
    "warp_specialize": cpu.specialize,
}  # fmt: skip
HOPPER = {
    "fence_async_shared": cpu.fence,
    "warpgroup_mma": cpu.start_product,
    "warpgroup_mma_wait": cpu.wait_for_products,
    "mbarrier": SimpleNamespace(
        MBarrierLayout=nothing,
        init=lambda bar, count: bar.init(count),
        expect=lambda bar, nbytes: bar.arrive(1, nbytes),
        arrive=lambda bar, count: bar.arrive(count),
        wait=lambda bar, phase, pred=True: bar.wait(phase) if pred else None,
    ),
    "tma": SimpleNamespace(
        async_copy_global_to_shared=cpu.copy_in,
        async_copy_shared_to_global=cpu.copy_out,
        store_wait=cpu.wait_for_stores,
    ),
}


def module(name: str, content: dict) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def load(source: str | None = None) -> ModuleType:
    """The module `gluon_forward`, to be run by `gluon_cpu`.

    Args:
        source: another version of its text.
    """
    language = module(f"{GLUON}.language", LANGUAGE)
    gluon = module(GLUON, {"jit": jit, "language": language})
    fakes = (
        module("triton.experimental", {"gluon": gluon}), gluon, language,
        module(f"{GLUON}.language.nvidia", {}), module(f"{GLUON}.language.nvidia.hopper", HOPPER),
        module(f"{GLUON}.nvidia", {}),
        module(f"{GLUON}.nvidia.hopper", {"TensorDescriptor": cpu.Descriptor}),
    )  # fmt: skip
    made = ModuleType("gluon_on_cpu")
    made.__file__ = str(PATH)
    text = PATH.read_text(encoding="utf-8") if source is None else source
    with mock.patch.dict(sys.modules, {fake.__name__: fake for fake in fakes}):
        exec(compile(text, str(PATH), "exec"), vars(made))  # noqa: S102
    made.processors = lambda x: 3
    return made
