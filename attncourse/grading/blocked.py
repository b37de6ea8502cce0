"""What an exercise forbids raises an error at run time, by whatever name or alias it is called.

The second fence. The first, `attngrade.allow`, reads the source before anything runs.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType

import torch

_LAYERS = (
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention.forward",
)
_LAYER_KERNELS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")

# What goes with a forbidden name: Python functions by their paths, kernels of aten.
FUNCTIONS = {
    "torch.nn.functional.scaled_dot_product_attention": (
        *_LAYERS,
        "torch.nn.attention.flex_attention.flex_attention",
    ),
    "torch.nn.functional.multi_head_attention_forward": _LAYERS,
    "torch.nn.MultiheadAttention": _LAYERS,
}
KERNELS = {
    "torch.nn.functional.scaled_dot_product_attention": (
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_fused_sdp_choice",
        *_LAYER_KERNELS,
    ),
    "torch.nn.functional.multi_head_attention_forward": _LAYER_KERNELS,
    "torch.nn.MultiheadAttention": _LAYER_KERNELS,
}
# Composite: also for nested tensors and where an operator is asked to decompose itself.
_KEYS = ("CPU", "CompositeImplicitAutograd", "FuncTorchVmapMode")
# What torch.jit has made is Python no longer, so it is stopped as a whole.
_SCRIPTS = (torch._C.ScriptFunction, torch._C.ScriptMethod)


@contextmanager
def blocked(names: tuple[str, ...]) -> Iterator[None]:
    """Make these functions raise a `RuntimeError` that says so, until the block is left.

    Kernels are overridden in torch's dispatcher, so that all threads, transforms and aliases meet
    them. Functions written in Python exchange their code, so that every reference to them does.

    Args:
        names: keys of `FUNCTIONS`, as in `Exercise.forbids`.

    Raises:
        KeyError: a name that nobody has said how to block.
    """
    if not names:
        yield
        return
    kernels = {kernel: name for name in reversed(names) for kernel in KERNELS[name]}
    functions = {_found(path): path for name in names for path in FUNCTIONS[name]}
    functions.pop(None, None)
    own = {function: function.__code__ for function in functions}
    scripts = {kind: kind.__call__ for kind in _SCRIPTS}
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are overridden is the purpose
            for kernel, name in kernels.items():
                for key in _KEYS:
                    library.impl(kernel, _refusing(name), key)
        for function, path in functions.items():
            function.__code__ = _code(path, function)
        for kind in scripts:
            kind.__call__ = _refusing("torch.jit")
        yield
    finally:
        for kind, call in scripts.items():
            kind.__call__ = call
        for function, code in own.items():
            function.__code__ = code
        library._destroy()


def _found(path: str) -> FunctionType | None:
    """The function at this path; None where its module was never imported."""
    module, parts = path, []
    while module not in sys.modules:
        module, _, last = module.rpartition(".")
        parts.insert(0, last)
    found = sys.modules[module]
    for part in parts:
        found = getattr(found, part, None)
    return found


def _message(path: str) -> str:
    name = path.removesuffix(".forward")
    return f"this exercise does not allow {name}; write its steps yourself"


def _refusing(name: str):
    def refuse(*args, **kwargs):
        raise RuntimeError(_message(name))

    return refuse


def _code(path: str, function: FunctionType) -> CodeType:
    """Code without variables of a closure, which could not take the place of other code."""

    def refuse(*args, **kwargs):
        raise RuntimeError("message")

    own = function.__code__
    consts = refuse.__code__.co_consts
    return refuse.__code__.replace(
        co_consts=tuple(_message(path) if x == "message" else x for x in consts),
        co_name=own.co_name,
        co_qualname=own.co_qualname,
    )
